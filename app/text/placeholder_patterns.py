"""Regular expressions for text that must not be translated, each anchored where such text begins.

Where and in which order to apply them is in `app.text.placeholders`.
"""

from __future__ import annotations

import re

from app.text.symbols import PICTURES

# Names end where no further Latin letter follows: "请用snake_case函数" contains one.
LATIN = r"A-Za-z0-9_\u00c0-\u024f"
_BEGIN, _END = rf"(?<![{LATIN}])", rf"(?![{LATIN}])"
_SPACES = r"\s\u00a0\u2000-\u200a\u202f\u3000"
_OPEN = rf"""(?<![^{_SPACES}(\[{{"'`“‘«„=,|/])"""
"""At the start of a word."""
_HAN = r"\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef"
_LETTERS_CJK = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff"
_ADDRESS = rf"""(?:[^\s<>"`\\^“”‘’«»…{_HAN}]|(?<=[/?=&\#_%+-])[{_LETTERS_CJK}][\w{_LETTERS_CJK}]*+)"""
"""A part of a URL. Chinese and Japanese text may follow one directly; a part of its path may begin with ideographs."""
_FILE = rf"""[^{_SPACES}\\/:*?"<>|,;!)“”‘’«»…、。，！？]"""
_FILE_TYPES = (
    "md|txt|rst|pdf|csv|tsv|json|jsonl|ya?ml|toml|ini|cfg|conf|xml|xliff|html?|css|scss|jsx?|tsx?|mjs|py|pyi|ipynb|rb|java"
    "|cpp|hpp|php|sh|bat|ps1|exe|dll|zip|tar|gz|tgz|bz2|xz|7z|png|jpe?g|gif|svg|webp|mp[34]|mkv|avi|mov|wav|log|sql"
    "|bak|tmp|lock|po|pot|srt|vtt|docx?|xlsx?|pptx?|odt|safetensors"
)
_VALUE = r"""(?: \\"(?:[^"\\<]|\\(?!"))*+\\" | "[^"<]*" | '[^'<]*' | [^\s"'=<>`]++ )"""
"""Of an attribute; its quotation marks may be escaped."""
_NUMBER = rf"\d++(?:[.,]\d++)*+(?!\.?[{LATIN}]|[:/-])"
_BBCODES = "[bius]|url|img|code|quote|list|li|size|color|font|center|left|right|table|t[rdh]|spoiler|su[bp]|hr|br|email"
_BOOLEAN = "async|autoplay|checked|controls|defer|disabled|download|hidden|loop|muted|open|readonly|required|selected"
TEXT_EMOJI = r"\u203c\u2049\u2139\u3030\u303d\u3297\u3299"
"""Characters that are emoji if U+FE0F follows."""
_EMOJI = rf"(?:[{PICTURES}]|[0-9#*](?=\ufe0f?\u20e3)|[{TEXT_EMOJI}](?=\ufe0f))"
_EMOJI_TAIL = r"[\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f]*+"


URL = re.compile(
    rf"""
    {_BEGIN} (?: (?: [A-Za-z][A-Za-z0-9+-]{{1,15}}:// | www\. | mailto: ) {_ADDRESS}+
        # without a scheme: a path behind it, or a top level that is no word
        | (?:[A-Za-z0-9-]{{1,63}}\.){{1,8}} (?: [a-z]{{2,10}}(?=/) | (?:com|org|net|edu|gov|io|dev|app){_END} )
          (?: [/?:\#]{_ADDRESS}+ )? )
    """,
    re.VERBOSE,
)
PLACEHOLDER = re.compile(
    rf"""
    # an e-mail address, or an account of the fediverse
    (?: {_BEGIN} [{LATIN}] [{LATIN}.+%-]{{0,63}} | (?<![\w.@]) @[{LATIN}.-]{{1,64}} ) @ [{LATIN}-]+ (?: \.[{LATIN}-]+ )+
    # tags; an attribute without a value must be one of HTML's, since "a <b and c> d" has no tag
    | <!DOCTYPE\b[^<>]*>
    | </?(?: [A-Za-z][\w:.-]*+ (?:={_VALUE})? | \d+ )?
        (?: \s++ (?: [\w:@.-]++ \s*+ = \s*+ {_VALUE} | (?:{_BOOLEAN})(?![\w=-]) ) )*+ \s*+ /?>
    | \[ (?: /[A-Za-z][\w-]* | [A-Za-z][\w-]*=[^\[\]\n]{{1,200}} | (?:{_BBCODES}) ) \]
    # a reference to a note, a placeholder, a stamp of the time; not a word in brackets
    | \[[ xX]?\] | \*\|\w+\|\*
    | \[ (?=[^\]]{{0,40}}[\d_*.] | [A-Za-z*+-]\] | [A-Z][A-Z]) [\w.,:;*/+–-]{{1,40}} \]
    # escapes, which end a line; not LaTeX's commands
    | \\[ntr] (?! (?:abla|eq?|ot|otin|u|heta|imes|o|ext[a-z]*|au|an|ho|ight[a-z]*|frac|fbox)\b )
    # a reference of i18next; numbers in a row
    | \$\w+\([^\s()]*\)
    | (?<![\w.,:/-]) {_NUMBER} (?: (?:[,;]?\ |[\u00a0;]) {_NUMBER} ){{3,}}+
    | & (?: [A-Za-z][A-Za-z0-9]{{1,31}} | \#[0-9]{{1,7}} | \#[xX][0-9A-Fa-f]{{1,6}} ) ;
    # an address in angle brackets
    | < (?: [A-Za-z][A-Za-z0-9+.-]{{1,15}}:[^\s<>]+ | [\w.+%-]{{1,64}}@[\w-]+(?:\.[\w-]+)+ ) >
    # variables: $(HOME), $name, %name%
    | \$\([\w.]+\) | (?<![\w$]) \$[A-Za-z_]\w* (?: /[\w.-]*\w )*
    | (?<!\d) %[A-Za-z_]\w+%(?![\d(sd@$])
    # printf and strftime; no space as a flag, since "100% sure" has none
    | %% | (?<!\d) %L[1-9]\d?(?!\d)
    | (?<!\d) %(?:\d+\$)?arg{_END}  # Apple's argument of a plural
    | (?<!\d) % (?: (?:\d+\$|\([\w.-]+\)) [-+0\#']* (?:\d+|\*)? (?:\.(?:\d+|\*))? (?:hh?|ll?|[Lqjzt])? [A-Za-z@]
        | [-+0\#']* (?:\d+|\*)? (?:\.(?:\d+|\*))? (?: [sd@] | (?:hh?|ll?|[Lqjzt])? [A-Za-z](?![A-Za-z]) ) )
    # Qt's; not in languages that put the percent sign before its number, such as Turkish
    | (?P<place> (?<![\d%]) %[1-9]\d? (?![\d%]|[.,]\d) )
    # :id and :smile:, but not :D
    | {_OPEN} :(?!(?:[DPpOoXx]{{1,3}}){_END}) (?: [A-Za-z_]\w+ (?:-\w+)* :? | \+1: | -1: )
    # --flag and -v, but not the "-I" of a dialogue
    | {_OPEN} --[a-z][\w-]* (?: =[\w./:,-]*\w )? | {_OPEN} -[a-zB-DF-HJ-NP-TV-XZ] (?![\w'’-])
    # @mention and #hashtag; among Chinese, up to a space or between two marks
    | (?<![\w.]) @[A-Za-z_][\w.-]*(?:/[\w.-]*)? (?<=\w) | (?<![\w.]) @(?u:\w{{1,15}}(?=[\s:：,，]|\Z))
    | (?<![\w&/]) \#(?u:(?=\w{{0,40}}[^\W\d_])(?:(?![{_HAN}])\w){{1,100}}{_END} | [{_HAN}]{{1,40}}\#)
    # Windows' paths, and names of files of known types
    | (?P<file> [A-Za-z]:\\(?: {_FILE}+ (?:\ {_FILE}+){{0,3}} \\ )* {_FILE}* | \\\\[\w.$-]+ (?: \\{_FILE}+ )+ )
    | (?: {_BEGIN} \.?[\w-]{{1,100}} (?:\.[\w-]{{1,40}}){{0,5}} | {_OPEN} ) \.(?:{_FILE_TYPES}){_END}
    # code: a.b.c(), ns::name, __NAME__, snake_case, a.b.c
    | {_BEGIN} [A-Za-z_]\w{{0,60}}+ (?: (?:\.|::|->)[A-Za-z_]\w{{0,60}}+ ){{0,10}} \(\)
    | {_BEGIN} [A-Za-z_]\w* (?: ::~?[A-Za-z_]\w*)+
    | {_BEGIN} __(?: [A-Z0-9]+(?:_[A-Z0-9]+)* | [a-z][a-z0-9]*(?:_[a-z0-9]+)* )__ {_END}
    | {_BEGIN} (?: [A-Za-z]\w{{0,60}}\. ){{0,6}} _*[A-Za-z][A-Za-z0-9]*+ (?: _+[A-Za-z0-9]++ )++ {_END}
    | {_BEGIN} [a-z][a-z_]{{1,40}} (?: \.[a-z][a-z_]{{1,40}} ){{2,6}} {_END}
    # camelCase and LongClassName, but not McDonald, iPhone, kWh
    | (?P<camel> {_BEGIN} (?: [A-Za-z]\w{{0,60}}\. ){{0,6}} (?: [a-z]{{2}}[a-z0-9]*+ (?:[A-Z][A-Za-z0-9]*+)
        | (?:[A-Z][a-z]++[0-9]*+){{3,}} ) {_END} )
    # versions; 1.2.3 alone may be a date or a number
    | {_BEGIN} (?: v\d+(?:\.\d+){{0,6}} | V\d+(?:\.\d+){{1,6}} | \d+\.\d+\.\d+(?=[-+][A-Za-z0-9]) )
        (?: [-+][A-Za-z0-9]+(?:[.-][A-Za-z0-9]+){{0,6}} | (?:a|b|rc|dev)\d+ )? {_END}
    # telephone numbers with their country, accounts (IBAN)
    | (?<![\w+]) \+ (?=(?:[ \u00a0./()-]{{0,2}}\d){{8,15}}(?!\d))
      \d{{1,4}} (?: [ \u00a0./-]?\(?\d{{1,14}}\)? ){{1,7}} (?<=\d)(?!\w|[.,/]\d)
    | {_BEGIN} [A-Z]{{2}}\d\d (?: \ [A-Z0-9]{{4}} ) (?: \ \d{{4}} ){{1,6}} (?: \ [A-Z0-9]{{1,4}} )? {_END}
    # UUIDs, IP addresses, hexadecimal numbers and digests, codes of capitals and digits, keys, ABC-1234, AB1-CD-2
    | {_BEGIN} (?: [0-9a-fA-F]{{8}} (?:-[0-9a-fA-F]{{4}}){{3}} -[0-9a-fA-F]{{12}}
        | (?:25[0-5]|2[0-4]\d|1?\d?\d) (?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){{3}} (?:/\d\d?|:\d{{1,5}})?
        | 0x[0-9A-Fa-f]+
        | (?=[0-9a-f]{{0,64}}[a-f])(?=[0-9a-f]{{0,64}}\d) [0-9a-f]{{7,64}}
        | (?=[A-Z0-9]{{0,40}}[A-Z])(?=[A-Z]{{0,40}}\d) [A-Z0-9]{{6,40}}
        | (?=\w{{0,60}}[a-z])(?=\w{{0,60}}[A-Z])(?=\w{{0,60}}\d) [A-Za-z0-9]{{8,60}}
        | (?=[A-Z-]{{0,40}}\d)(?=[\d-]{{0,40}}[A-Z]) [A-Z0-9]{{1,20}}(?:-[A-Z0-9]{{1,20}}){{2,8}}
        | [A-Z][A-Z0-9]+-\d{{3,20}}
      ) {_END}
    | {_EMOJI}{_EMOJI_TAIL} (?: \ ?{_EMOJI}{_EMOJI_TAIL} )*+
    """,
    re.VERBOSE | re.ASCII,
)
"""Everything except braces, Markdown and paths. Repetitions are bounded wherever they could cause backtracking."""
LINK_TARGET = re.compile(
    r"""\]\((?:<[^<>\n]*>|[^\s()<>]*+(?:\([^\s()<>]*+\)[^\s()<>]*+)*+)(?:\s++(?:"[^"\n(]*"|'[^'\n(]*'))?\)"""
)
"""From the end of a Markdown link's text to the end of the link."""
_MARK = r"(?:(?<!\*)\*{1,3}(?!\*)|(?<!_)_{1,3}(?!_)|(?<!~)~~(?!~)|\\[\"'])"
EMPHASIS = re.compile(rf"(?<![{LATIN}]){_MARK}|{_MARK}(?![{LATIN}])")
"""Potential Markdown emphasis, and escaped quotation marks."""
CHUNK = re.compile(rf"[^{_SPACES}{_HAN}“”„‟«»‹›…\"\u2018-\u201f\u3000-\u303f]++")
"""What stands between blanks and quotation marks."""
GLUE = re.compile(r"[-/:.,_+=&;·×]{0,3}")
"""What keeps codes together that have only it between them."""
_NAME = rf"[{LATIN}.@+~%$*:{{}}-]{{0,255}}+"
PATH = re.compile(rf"(?<![{LATIN}./~%&<>)\]}}-]){_NAME}(?:/{_NAME})++")
FILE_NAME = re.compile(r"[\w}-]{2,}\.[a-z][a-z0-9]{0,4}$")
"""A file name with an extension; "p.m" is not one."""
