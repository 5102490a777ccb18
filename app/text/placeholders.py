"""Finds text that must not be translated. `CLASSES` lists all that a model does not read as it is, or must not change.

Which characters are symbols, which of them belong together, and what is a code, is in `app.text.symbols`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import Literal, NamedTuple

from app.markup.passage import ProtectedSpan
from app.text.symbols import KEPT, KEPT_RUN, PICTURES, is_code, is_nesting, nesting_pairs
from model.languages import language_alone
from model.scripts import foreign_letters


class TextClass(NamedTuple):
    """A class of text, and what becomes of it: a `symbol` in its place is all that the model sees; a `tag` is left out,
    and goes where attention says; what is `rewritten` for the model is restored; what is `checked` is the model's to
    write, and becomes a symbol where it writes something else."""

    name: str
    example: str
    treatment: Literal["symbol", "tag", "rewritten", "checked"]
    pattern: str = ""
    """Finds it, unless it takes more than a pattern."""
    module: str = __name__
    """Where it is found."""


# Names end where no further Latin letter follows: "请用snake_case函数" contains one.
_LATIN = r"A-Za-z0-9_\u00c0-\u024f"
_BEGIN, _END = rf"(?<![{_LATIN}])", rf"(?![{_LATIN}])"
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
_NUMBER = rf"\d++(?:[.,]\d++)*+(?!\.?[{_LATIN}]|[:/–-])"
_BBCODES = "[bius]|url|img|code|quote|list|li|size|color|font|center|left|right|table|t[rdh]|spoiler|su[bp]|hr|br|email"
_BOOLEAN = "async|autoplay|checked|controls|defer|disabled|download|hidden|loop|muted|open|readonly|required|selected"
_TEXT_EMOJI = r"\u203c\u2049\u2139\u3030\u303d\u3297\u3299"
"""Characters that are emoji if U+FE0F follows."""
_KEYS = r"[\u2303\u2318\u2325\u21e7]+[A-Z0-9]"
_EMOJI = rf"(?:(?!{_KEYS})[{PICTURES}]|[0-9#*](?=\ufe0f?\u20e3)|[{_TEXT_EMOJI}](?=\ufe0f))"
_EMOJI_TAIL = r"[\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f]*+"

# fmt: off
CLASSES = (
    TextClass("address on the web", "https://example.org/a?b=1", "symbol", rf"""(?P<url> {_BEGIN} (?u:
        (?: [A-Za-z][A-Za-z0-9+-]{{1,15}}:// | www\. | mailto: ) {_ADDRESS}+
        # without a scheme: a path behind it, or a top level that is no word
        | (?:[A-Za-z0-9-]{{1,63}}\.){{1,8}} (?: [a-z]{{2,10}}(?=/) | (?:com|org|net|edu|gov|io|dev|app){_END} )
          (?: [/?:\#]{_ADDRESS}+ )? ) )"""),
    TextClass("e-mail address, account of the fediverse", "@lena@social.example", "symbol", rf"""
        (?: {_BEGIN} [{_LATIN}] [{_LATIN}.+%-]{{0,63}} | (?<![\w.@]) @[{_LATIN}.-]{{1,64}} )
        @ [{_LATIN}-]+ (?: \.[{_LATIN}-]+ )+"""),
    # an attribute without a value must be one of HTML's, since "a <b and c> d" has no tag
    TextClass("tag", "<br>", "symbol", rf"""<!DOCTYPE\b[^<>]*> | </?(?: [A-Za-z][\w:.-]*+ (?:={_VALUE})? | \d+ )?
        (?: \s++ (?: [\w:@.-]++ \s*+ = \s*+ {_VALUE} | (?:{_BOOLEAN})(?![\w=-]) ) )*+ \s*+ /?>
        | <\ ?/?\ ?[bh]r\ ?/?\ ?>  # as machines spell it
        | \[ (?: /[A-Za-z][\w-]* | [A-Za-z][\w-]*=[^\[\]\n]{{1,200}} | (?:{_BBCODES}) ) \]"""),
    TextClass("reference or time in brackets", "[00:12:34]", "symbol", r"""\[[ xX]?\]  # not a word in brackets
        | \[ (?=[^\]]{0,40}[\d_*.] | [A-Za-z*+-]\] | [A-Z][A-Z]) [\w.,:;*/+–-]{1,40} \]"""),
    TextClass("escape", "\\n", "symbol", r"""\\[ntr]  # not LaTeX's commands
        (?! (?:abla|eq?|ot|otin|u|heta|imes|o|ext[a-z]*|au|an|ho|ight[a-z]*|frac|fbox)\b )"""),
    TextClass("numbers in a row", "3 5 8 13 21", "symbol",
        rf"(?<![\w.,:/-]) {_NUMBER} (?: (?:[,;]?\ |[\u00a0;]) {_NUMBER} ){{3,}}+"),
    TextClass("range, list, time, power of ten", "10–20", "symbol", r"""(?<![\w.,:/–-]) (?:
        (?:§§?\ ?)? \d++(?:\.\d++)*+ [–—] \d++(?:[.,]\d++)*+ | \d{1,2}(?:,\d{1,2}){2,} | \d{1,2}:\d\d:\d\d(?:[.,]\d+)?
        | \d++(?:\.\d++)?[eE][+-]?\d+ ) (?![\w–-]|[.,:]\d)"""),
    TextClass("reference to a character", "&eacute;", "symbol",
        r"& (?: [A-Za-z][A-Za-z0-9]{1,31} | \#[0-9]{1,7} | \#[xX][0-9A-Fa-f]{1,6} ) ;"),
    TextClass("address in angle brackets", "<mailto:lena@example.org>", "symbol",
        r"< (?: [A-Za-z][A-Za-z0-9+.-]{1,15}:[^\s<>]+ | [\w.+%-]{1,64}@[\w-]+(?:\.[\w-]+)+ ) >"),
    TextClass("variable", "$name", "symbol", r"\$\w*\([^\s()]*\) | (?<![\w$]) \$[A-Za-z_]\w* (?: /[\w.-]*\w )*"),
    # no space as a flag, since "100% sure" has none; the last is Apple's argument of a plural
    TextClass("conversion of printf or strftime", "%1$s", "symbol", rf"""%% | (?<!\d) %L[1-9]\d?(?!\d)
        | (?<!\d) % (?: (?:\d+\$|\([\w.-]+\)) [-+0\#']* (?:\d+|\*)? (?:\.(?:\d+|\*))? (?:hh?|ll?|[Lqjzt])? [A-Za-z@]
            | [-+0\#']* (?:\d+|\*)? (?:\.(?:\d+|\*))? (?: [sd@] | (?:hh?|ll?|[Lqjzt])? [A-Za-z](?![A-Za-z]) ) )
        | (?<!\d) %(?:\d+\$)?arg{_END}"""),
    TextClass("argument of Qt", "%1", "symbol", r"(?P<place> (?<![\d%]) %[1-9]\d? (?![\d%]|[.,]\d) )"),
    TextClass("name after a colon", ":id", "symbol",  # not :D
        rf"{_OPEN} :(?!(?:[DPpOoXx]{{1,3}}){_END}) (?: [A-Za-z_]\w+ (?:-\w+)* :? | \+1: | -1: )"),
    TextClass("emoticon, command, key", ":-)", "symbol", rf"""
        (?<![{_LATIN}:;=<^-]) (?: [:;=][-'^o]?[)(DPpOo/|*] | <3 | \^_*\^ | -_+- ) (?!(?u:\w)|[/\\(\[:])
        | (?<![\w!]) ![a-z]{{2,40}}(?!\w) | {_KEYS}(?!\w)"""),
    TextClass("option of a command", "--help", "symbol",  # not the "-I" of a dialogue
        rf"{_OPEN} --[a-z][\w-]* (?: =[\w./:,-]*\w )? | {_OPEN} -[a-zB-DF-HJ-NP-TV-XZ] (?![\w'’-])"),
    TextClass("mention, hashtag", "#garden", "symbol", rf"""(?<![\w.]) @[A-Za-z_][\w.-]*(?:/[\w.-]*)? (?<=\w)
        | (?<![\w.]) @(?u:\w{{1,15}}(?=[\s:：,，]|\Z))  # among Chinese, up to a space or between two marks
        | (?<![\w&/]) \#(?u:(?=\w{{0,40}}[^\W\d_])(?:(?![{_HAN}])\w){{1,100}}{_END} | [{_HAN}]{{1,40}}\#)"""),
    TextClass("path of Windows, name of a file", "notes.txt", "symbol", rf"""(?P<file> [A-Za-z]:\\(?: {_FILE}+
            (?:\ {_FILE}+){{0,3}} \\ )* {_FILE}* | \\\\[\w.$-]+ (?: \\{_FILE}+ )+ )
        | (?: {_BEGIN} \.?[\w-]{{1,100}} (?:\.[\w-]{{1,40}}){{0,5}} (?:\(\w{{1,9}}\))? | {_OPEN} )
        \.(?:{_FILE_TYPES}){_END}"""),
    TextClass("forum, company", "u/lena", "symbol", rf"""{_BEGIN}(?<![/.:~-]) [ru]/[A-Za-z]\w+
        | {_BEGIN} (?: [A-Z]{{1,4}}(?:&[A-Z]{{1,4}})+ | [A-Z]\+\+ ) (?!\w)"""),
    TextClass("identifier, call", "snake_case", "symbol", rf"""  # not file(s)
        {_BEGIN} (?:[a-z_]|[A-Z]\w{{0,30}}\.)[\w.]{{1,30}}
            \( (?=[^()]{{0,60}}[\d,=.]) [^\s()]{{1,60}} (?:,\ [^\s()]{{1,60}}){{0,5}} \)
        | {_BEGIN} [A-Za-z_]\w{{0,60}}+ (?: (?:\.|::|->)[A-Za-z_]\w{{0,60}}+ ){{0,10}} \(\)
        | {_BEGIN} __(?: [A-Z0-9]+(?:_[A-Z0-9]+)* | [a-z][a-z0-9]*(?:_[a-z0-9]+)* )__ {_END}
        | {_BEGIN} (?: [A-Za-z]\w{{0,60}}\. ){{0,6}} _*[A-Za-z][A-Za-z0-9]*+ (?: _+[A-Za-z0-9]++ )++ {_END}
        | {_BEGIN} [a-z][a-z_]{{1,40}} (?: \.[a-z][a-z_]{{1,40}} ){{2,6}} {_END}"""),
    # not McDonald, iPhone, kWh
    TextClass("name in camel case", "camelCase", "symbol", rf"""(?P<camel> {_BEGIN} (?: [A-Za-z]\w{{0,60}}\. ){{0,6}}
        (?: [a-z]{{2}}[a-z0-9]*+ (?:[A-Z][A-Za-z0-9]*+) | (?:[A-Z][a-z]++[0-9]*+){{3,}} ) {_END} )"""),
    TextClass("version", "v3.2.0-rc.1", "symbol", rf"""  # 1.2.3 alone may be a date or a number
        {_BEGIN} (?: v\d+(?:\.\d+){{0,6}} | V\d+(?:\.\d+){{1,6}} | \d+\.\d+\.\d+(?=[-+][A-Za-z0-9]) )
        (?: [-+][A-Za-z0-9]+(?:[.-][A-Za-z0-9]+){{0,6}} | (?:a|b|rc|dev)\d+ )? {_END}"""),
    TextClass("telephone number, bank account", "+49 30 555 0199", "symbol", rf"""
        (?<![\w+]) \+ (?=(?:[ \u00a0./()-]{{0,2}}\d){{8,15}}(?!\d))
        \d{{1,4}} (?: [ \u00a0./-]?\(?\d{{1,14}}\)? ){{1,7}} (?<=\d)(?!\w|[.,/]\d)
        | {_BEGIN} [A-Z]{{2}}\d\d (?: \ [A-Z0-9]{{4}} ) (?: \ \d{{4}} ){{1,6}} (?: \ [A-Z0-9]{{1,4}} )? {_END}"""),
    TextClass("digest, key, number of a part", "9e107d9d372bb682", "symbol", rf"""{_BEGIN} (?:
        [0-9a-fA-F]{{8}} (?:-[0-9a-fA-F]{{4}}){{3}} -[0-9a-fA-F]{{12}}
        | (?:25[0-5]|2[0-4]\d|1?\d?\d) (?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){{3}} (?:/\d\d?|:\d{{1,5}})?
        | 0x[0-9A-Fa-f]+
        | (?=[0-9a-f]{{0,64}}[a-f])(?=[0-9a-f]{{0,64}}\d) [0-9a-f]{{7,64}}
        | (?=[A-Z0-9]{{0,40}}[A-Z])(?=[A-Z]{{0,40}}\d) [A-Z0-9]{{6,40}}
        | (?=\w{{0,60}}[a-z])(?=\w{{0,60}}[A-Z])(?=\w{{0,60}}\d) [A-Za-z0-9]{{8,60}}
        | (?=[A-Z-]{{0,40}}\d)(?=[\d-]{{0,40}}[A-Z]) [A-Z0-9]{{1,20}}(?:-[A-Z0-9]{{1,20}}){{2,8}}
        | [A-Z][A-Z0-9]+-\d{{3,20}} ) {_END}"""),
    TextClass("emoji", "☺", "symbol", rf"{_EMOJI}{_EMOJI_TAIL} (?: \ ?{_EMOJI}{_EMOJI_TAIL} )*+"),
    TextClass("date pattern", "MMM d, yyyy", "symbol"),
    TextClass("path", "/etc/hosts", "symbol"),
    TextClass("placeholder in braces", "{name}", "symbol"),
    TextClass("code of Markdown", "`x = 1`", "symbol"),
    TextClass("comment", "<!-- note -->", "symbol"),
    TextClass("words in a script of another language", "你好", "symbol"),
    TextClass("symbol", "¶", "symbol", module="app.text.symbols"),
    TextClass("code: a chunk with symbols in it", "a^b", "symbol", module="app.text.symbols"),
    TextClass("pair of marks", "**red**", "tag", module="app.translation.plain_text_tags"),
    TextClass("symbol that touches a word", "Name*", "tag", module="app.translation.plain_text_tags"),
    TextClass("tab", "red\tcar", "tag", module="app.translation.plain_text_tags"),
    TextClass("word with tags in it", "H<sub>2</sub>O", "symbol", module="app.text.word_tags"),
    TextClass("number", "1,234.56", "checked", module="app.text.checked_marks"),
    TextClass("sign", "50%", "checked", module="app.text.checked_marks"),
    TextClass("quotation marks, brackets", "“red”", "checked", module="app.text.checked_marks"),
    TextClass("name, acronym", "Nguyễn", "checked", module="app.translation.names"),
    TextClass("mnemonic", "&Open", "rewritten", module="app.text.mnemonics"),
    TextClass("message of ICU", "{n, plural, other {# files}}", "rewritten", module="app.text.icu_messages"),
    TextClass("text in JSON", '{"title": "Open"}', "rewritten", module="app.formats.json_strings"),
    TextClass("capitals", "DO NOT OPEN", "rewritten", module="app.translation.input_normalisation"),
    TextClass("mark that the vocabulary lacks", "„", "rewritten", module="app.translation.input_normalisation"),
    TextClass("missing full stop", "My red car", "rewritten", module="app.translation.input_normalisation"),
    TextClass("marks in a row", "Stop!!", "rewritten", module="app.text.punctuation_marks"),
    TextClass("optional ending", "file(s)", "rewritten", module="app.text.optional_endings"),
)
"""In the order in which the patterns are tried. Repetitions are bounded wherever they could cause backtracking."""
# fmt: on
_PLACEHOLDER = re.compile("|".join(one.pattern for one in CLASSES if one.pattern), re.VERBOSE | re.ASCII)
_DATE_FIELD = r"(?:E{3,5}|[dD]{1,2}|M{1,4}|y{1,4}|Y{2,4})"
_DATE_PATTERN = re.compile(rf"{_BEGIN}{_DATE_FIELD}(?:[., /-]{{1,2}}{_DATE_FIELD}){{1,3}}{_END}")
_MAX_BEFORE_MONTH, _MAX_DATE_PATTERN = 12, 40
"""Characters of a date pattern before its month, and in all."""
_LINK_TARGET = re.compile(
    r"""\]\((?:<[^<>\n]*>|[^\s()<>]*+(?:\([^\s()<>]*+\)[^\s()<>]*+)*+)(?:\s++(?:"[^"\n(]*"|'[^'\n(]*'))?\)"""
)
"""From the end of a Markdown link's text to the end of the link."""
_MARK = r"(?:(?<!\*)\*{1,3}(?!\*)|(?<!_)_{1,3}(?!_)|(?<!~)~~(?!~)|\\[\"'])"
_EMPHASIS = rf"(?<![{_LATIN}]){_MARK}|{_MARK}(?![{_LATIN}])"
"""Potential Markdown emphasis, and escaped quotation marks."""
_CHUNK = re.compile(rf"[^{_SPACES}{_HAN}“”„‟«»‹›…\"\u2018-\u201f\u3000-\u303f]++")
"""What stands between blanks and quotation marks."""
_GLUE = re.compile(r"[-/:.,_+=&;·×]{0,3}")
"""What keeps codes together that have only it between them."""
_PART = rf"[{_LATIN}.@+~%$*:{{}}-]{{0,255}}+"
_PATH = re.compile(rf"(?<![{_LATIN}./~%&<>)\]}}-]){_PART}(?:/{_PART})++")
_FILE_NAME = re.compile(r"[\w}-]{2,}\.[a-z][a-z0-9]{0,4}$")
"""A file name with an extension; "p.m" is not one."""
_ROOT_FOLDER = re.compile("bin|boot|dev|etc|home|lib|mnt|opt|proc|root|run|srv|sys|tmp|usr|var")
_WORD_BEFORE, _CHUNK_BEFORE = re.compile(rf"[{_LATIN}]"), re.compile(rf"[{_LATIN}.+~-]")
_FORMAT = re.compile(r"\s*[\w.-]*\s*,\s*(?:plural|select|selectordinal|number|date|time|spellout|ordinal|duration)\b")
"""The beginning of an argument of ICU's MessageFormat."""
_MAX_BRACE_CHARS, _MAX_BRACE_WORDS = 120, 4
"""Maximum characters and words in braces: more is a sentence that happens to be in braces."""
_COMMENT = re.compile(r"<!--|<!\[CDATA\[|<\?|<%")
_COMMENT_ENDS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>", "<%": "%>"}
_NOT_IN = {"camel": {"ga", "gd", "xh", "zu"}, "place": {"eu", "tr"}}
"""Languages whose ordinary words have inner capitals ("bhFuil", "isiZulu"), and those that write %50."""


def find_placeholders(text: str, language: str) -> list[ProtectedSpan]:
    """The parts of `text`, which is in `language`, to keep unchanged: in order, not overlapping, each its own `raw`."""
    trigger, foreign = _triggers(language)
    if not trigger.search(text):  # as for most sentences
        return []
    found = _joined(text, _Scan(text, language, foreign).matches(trigger))
    return [ProtectedSpan(start, end, text[start:end]) for start, end in found]


def _joined(text: str, found: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What is `found`, with codes that touch, or have only punctuation between them, as one: "{a}-{b}", "#{n}"."""
    start = end = 0
    nests = False
    for first, last in found:
        is_mark = is_nesting(text[first:last])
        if end and not (nests or is_mark) and _GLUE.fullmatch(text, end, first):
            end = last
            continue
        if end:
            yield start, end
        start, end, nests = first, last, is_mark
    if end:
        yield start, end


@cache
def _triggers(language: str) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """Finds candidates to examine: a character class, or a run of letters in a foreign script."""
    letters = foreign_letters(language)
    always = rf"{KEPT}{{\[%$&`\\/:{_TEXT_EMOJI}{PICTURES}{letters}"
    # If a pattern begins with a single class, `re` skips other characters without attempting a match.
    trigger = (
        rf"[.(+\-=!;A-Z0-9{always}](?:(?<=[{always}])|(?<=\+)(?=\d)|(?<=\w\+)(?=[A-Za-z])|(?<=\.)(?=\w)|(?<=[\w\]]\()"
        r"|(?<=[A-Z]\+)(?=\+)|(?<=[=;])(?=[-'^o]?[)(DPpOo/|*])|(?<![A-Za-z0-9_!]!)(?<=!)(?=[a-z])"
        r"|(?<=M)(?=MM)|(?<![\w-]-)(?<=-)(?=-?[A-Za-z])|(?<=-)(?=>[A-Za-z]|[dDmM]{2}\b)|(?<=[a-z][A-Z])|(?<=\w=)(?=[\w\"'])"
        r"|(?<=[0-9])(?:(?<=[A-Za-z-].)|(?=[A-Za-z\-\ufe0f\u20e3])"
        r"|(?=[.–—]\d|,\d\d?,\d|:\d\d:\d|[,;]? \d|[\u00a0;]\d)))"
    )
    between = r"[ \u00a0\u200c\u200d\u0300-\u036f.,;:!?'’\-–—·•、。，；：？！「」『』（）《》0-9\u0660-\u0669]"
    run = rf"[{letters}]++(?:{between}{{1,4}}+[{letters}]++)*+[、。，；：？！」』）》]*"
    return re.compile(trigger), re.compile(run) if letters else None


class _Scan:
    """One scan of a text from left to right; properties of the whole text are computed once."""

    def __init__(self, text: str, language: str, foreign: re.Pattern[str] | None) -> None:
        self.text, self.foreign, self.language = text, foreign, language_alone(language)
        self._closings: dict[str, int] = {}
        self._no_path_before = self._no_chunk_before = 0

    def matches(self, trigger: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        """The texts to keep, in order."""
        search, place = trigger.search, 0
        while hit := search(self.text, place):
            if found := self._match_at(hit.start(), place):
                yield found
                place = found[1]
            else:
                place = hit.end()

    def _match_at(self, place: int, floor: int) -> tuple[int, int] | None:
        """The text to keep around the character at `place`, beginning at `floor` or later."""
        character = self.text[place]
        if character == "[" and place in self._links:
            return place - (place > floor and self.text[place - 1] == "!"), place + 1
        if character == "]" and (target := _LINK_TARGET.match(self.text, place)):
            return target.span()
        if character > "\u036f" and self.foreign and (run := self.foreign.match(self.text, place)):
            return place - (place > floor and self.text[place - 1] in "「『（《"), run.end()
        if self.text.startswith("MMM", place) and (pattern := self._date_pattern(place, floor)):
            return pattern
        end = 0
        if character in "{$#%@":
            end = self._braced(place)
        elif character in "`~":
            end = self._code(place)
        elif character == "<" and (opening := _COMMENT.match(self.text, place)):
            end = self._end_of_next(_COMMENT_ENDS[opening[0]], opening.end())
        if end:
            return place, end
        joins = character.isalnum() or (character in ".:/+-=%" and not self.text.startswith(":\\", place))
        found = self._chunk(place, floor) if joins else None
        found = found or (None if character in "{`" else self._word(place, floor))
        found = found or (self._emphasis.get(place) if character in "*_~\\" else None) or self._chunk(place, floor)
        run = None if found else KEPT_RUN.match(self.text, place)
        return run.span() if run else found

    def _date_pattern(self, month: int, floor: int) -> tuple[int, int] | None:
        """The date pattern with its month at `month`."""
        start = max(floor, month - _MAX_BEFORE_MONTH)
        found = _DATE_PATTERN.finditer(self.text, start, start + _MAX_DATE_PATTERN)
        return next((one.span() for one in found if one.start() <= month < one.end()), None)

    def _chunk(self, place: int, floor: int) -> tuple[int, int] | None:
        """The code around the character at `place`, without the punctuation around it."""
        if place < self._no_chunk_before:
            return None
        start = self._extend_left(_CHUNK, place, floor)
        end = found.end() if (found := _CHUNK.match(self.text, start)) else start
        chunk = self.text[start:end]
        first = len(chunk) - len(chunk.lstrip("('‘’¿¡"))
        last = len(chunk.rstrip(").,;!?'’" + ":" * (chunk[:2] != "::")))
        last += chunk[last : last + 1] == ")" and chunk.count("(", first, last) > chunk.count(")", first, last)
        is_part = "</" in chunk or "](" in chunk or chunk.count("{") != chunk.count("}")
        if first >= last or is_part or not is_code(chunk[first:last]):
            self._no_chunk_before = end
            return None
        return (start + first, start + last) if start + first <= place < start + last else None

    def _braced(self, place: int) -> int:
        """The end of a placeholder in braces, which may nest, or 0."""
        opening = place + (self.text[place] != "{")
        end = self._braces.get(opening, 0)
        if not end or self.text[opening + 1] in "{%#" or _FORMAT.match(self.text, opening + 1):
            return end
        name = self.text[opening + 1 : end - 1] if end - opening <= _MAX_BRACE_CHARS else "\n"
        return end if not name or ("\n" not in name and 1 <= len(name.split()) <= _MAX_BRACE_WORDS) else 0

    def _code(self, place: int) -> int:
        """The end of Markdown code, or 0. Backticks as quotation marks (`so' or ``so'') begin none."""
        if self.text.startswith("~~~", place):
            return self._end_of_next("\n~~~", place) if place == 0 or self.text[place - 1] == "\n" else 0
        start, stop, end = self._ticks.get(place, (0, 0, 0))
        if start - place >= 3 or not end:
            return end
        quoted = self.text[stop - 1].isspace() and not self.text[start].isspace()
        return 0 if quoted or self.text.find("\n\n", start, stop) >= 0 else end

    def _end_of_next(self, mark: str, place: int) -> int:
        """The end of the next `mark`, or 0. Places come in order, so no stretch is searched twice."""
        found = self._closings.get(mark, 0)
        if 0 <= found <= place:
            found = self._closings[mark] = self.text.find(mark, place)
        return found + len(mark) if found >= 0 else 0

    def _word(self, place: int, floor: int) -> tuple[int, int] | None:
        word = self._extend_left(_WORD_BEFORE, place, floor)
        for start in dict.fromkeys((self._extend_left(_CHUNK_BEFORE, word, floor), word, place)):
            end = self._path(start) or self._placeholder(start)
            if end > place:
                return start, end
        return None

    def _extend_left(self, character: re.Pattern[str], place: int, floor: int) -> int:
        while place > floor and character.match(self.text[place - 1]):
            place -= 1
        return place

    def _placeholder(self, start: int) -> int:
        found = _PLACEHOLDER.match(self.text, start)
        if not found or self.language in _NOT_IN.get(found.lastgroup or "", ()):
            return 0
        return _trimmed(self.text, start, found.end()) if found.lastgroup in ("url", "file") else found.end()

    def _path(self, start: int) -> int:
        if start < self._no_path_before or not (found := _PATH.match(self.text, start)):
            return 0
        end = _trimmed(self.text, start, found.end())
        if not _is_path(self.text[start:end]):
            self._no_path_before, end = found.end(), 0
        return end

    @cached_property
    def _braces(self) -> dict[int, int]:
        """The end of each opening brace's group."""
        return {first.start: last.end for first, last in self._pairs("[{}]")}

    @cached_property
    def _links(self) -> set[int]:
        """The opening brackets of Markdown links."""
        pairs = self._pairs(r"[\[\]]")
        return {first.start for first, last in pairs if _LINK_TARGET.match(self.text, last.start)}

    @cached_property
    def _emphasis(self) -> dict[int, tuple[int, int]]:
        """The marks of Markdown emphasis, which are paired within a line, by position."""
        lines = (self._pairs(_EMPHASIS, *line.span()) for line in re.finditer(".+", self.text))
        return {mark.start: mark[:2] for pairs in lines for pair in pairs for mark in pair}

    def _pairs(self, marks: str, *within: int) -> Iterator[tuple[ProtectedSpan, ProtectedSpan]]:
        spans = [ProtectedSpan(*mark.span(), "") for mark in re.compile(marks).finditer(self.text, *within)]
        return ((spans[a], spans[b]) for a, b in (nesting_pairs(self.text, spans) if spans[1:] else ()))

    @cached_property
    def _ticks(self) -> dict[int, tuple[int, int, int]]:
        """For each run of backticks with a matching later run: its end, and the other's start and end."""
        following: dict[int, tuple[int, int]] = {}
        ticks: dict[int, tuple[int, int, int]] = {}
        for start, end in reversed([run.span() for run in re.finditer("`+", self.text)]):
            if end - start in following:
                ticks[start] = (end, *following[end - start])
            following[end - start] = start, end
        return ticks


def _trimmed(text: str, start: int, end: int) -> int:
    """The end of a URL without trailing punctuation and the bracket that encloses it."""
    excess = {close: text.count(close, start, end) - text.count(open, start, end) for open, close in ("()", "[]", "{}")}
    while end > start and (text[end - 1] in ".,;:!?'*~" or excess.get(text[end - 1], 0) > 0):
        end -= 1
        if text[end] in excess:
            excess[text[end]] -= 1
    return end


def _is_path(path: str) -> bool:
    """Whether it is a path, and not "and/or", "km/h" or "a.m./p.m"."""
    parts = path.split("/")
    if not (names := list(filter(None, parts))) or "//" in path:
        return False
    if not parts[0]:
        return len(names) > 1 or not parts[-1] or _ROOT_FOLDER.fullmatch(names[0]) is not None
    is_rooted = parts[0] in (".", "..", "~") or parts[0][0] == "$"
    is_folder = len(names) > 1 and not parts[-1]
    return is_rooted or is_folder or "_" in path or _FILE_NAME.search(parts[-1]) is not None
