"""Rules for markdown-it-py: what Markdown has beyond CommonMark in site generators, notes and components.

Blocks: TOML front matter, containers (`:::note`), admonitions (`!!! note "Title"`) and tabs, directives
(`::name[..]{..}` and MyST's fences), tags of components, MDX's imports and exports, mathematics. Inline: mathematics,
`[[page|text]]`, `==marked==`, `++inserted++`, `x^2^`, `H~2~O`, attributes (`{#id}`), roles and directives, tags of
components.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline.state_inline import StateInline
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin

TITLE = "title_open"
"""The type of the token before a title with marks around it; `meta` has its column."""

_MAX_MARKUP_CHARS = 500
"""Of one value or label in marks: what is longer is text."""
_ATTRIBUTES = rf"\{{[^{{}}\n]{{0,{_MAX_MARKUP_CHARS}}}\}}"
_LABEL = rf"\[(?P<label>[^\[\]\n]{{0,{_MAX_MARKUP_CHARS}}})\]"
_CONTAINER = re.compile(
    rf"""
    :{{3,}} [ \t]*+ (?:\{{[\w:-]+\}}|[\w-]++)?+ [ \t]*+
        (?: {_LABEL}(?:{_ATTRIBUTES})?+ | (?P<title>[^\s:{{\[][^\n{{}}]*?)?[ \t]*+(?:{_ATTRIBUTES})?+ )
    | \*\[[^\[\]\n]{{1,100}}\]:[ \t]+(?P<abbreviated>[^\n]+)
    | ::[A-Za-z][\w-]*+ (?P<leaf>{_LABEL.replace("label", "leaf_label")})?+ (?:{_ATTRIBUTES})?+
    """,
    re.VERBOSE,
)
"""A line that opens or closes a container, defines an abbreviation, or is a directive."""
_NAME_IN_BRACES = re.compile(r":{3,}[ \t]*+\{[\w:-]+\}")
_KEPT_LINE = re.compile(r"</?>|\{/\*[^\n]*\*/\}|\[\[?_?toc_?\]?\]", re.IGNORECASE)
_MODULE = re.compile(
    r"""import\s(?:[\w*{}\s,$]{1,500}?\sfrom\s)?\s*["'][^"'\n]+["']"""
    r"|export\s(?:(?:default\s)?(?:async\s)?(?:function|class)\b|(?:const|let|var)\s|[{*]"
    r"|default\s+(?:[\w({\[]+;?[ \t]*$|[({\[]|\w+\s*=>))",
    re.MULTILINE,
)
_ADMONITION = re.compile(
    r"""(?:(?:!!!|\?\?\?\+?)[ \t]+[a-z][\w-]*+(?:[ \t]+[a-z][\w-]*+)*+(?:[ \t]+"(?P<title>[^"\n]*)")?"""
    r"""|===[+!]?[ \t]+"(?P<tab>[^"\n]*)")"""
)
_FENCE = re.compile(
    r"(?P<fence>`{3,}|~{3,})\{(?:note|tip|hint|important|warning|caution|attention|danger|error|seealso|admonition"
    r"|dropdown|card|margin|aside|sidebar|epigraph)\}[ \t]*+(?P<title>[^`\n]*?)"
)
"""Opens a directive of MyST whose content is Markdown."""
_FENCE_OPTION = re.compile(r":[\w-]+:")
_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+\}"
_COMPONENT = re.compile(
    rf"""</?+[A-Za-z][\w.:-]*+
    (?: \s++ (?: [@:\#\w][\w.:@\[\]-]*+ (?: = (?: "[^"]*+" | '[^']*+' | {_BRACES} | [^\s"'=<>`{{}}]++ ) )?+
        | {_BRACES} ) )*+
    \s*+ /?+>""",
    re.VERBOSE,
)
"""A tag as in MDX and Vue."""
_MAX_TAG_CHARS = 2_000
_IS_COMPONENT = re.compile(r"</?(?:[A-Z]|\w+[.-]|template\b|slot\b)|[^{]*=?\{|\S+(?:\s[^{]*)?\s[@#:]\w")
_WIKI_LINK = re.compile(r"!?\[\[[^\[\]|\n]{1,500}(?:\\?\|(?P<text>[^\[\]\n]{1,500}))?\]\](?![(\[])")
_ATTRIBUTE_LIST = re.compile(r"\{:?(?:[#.][\w-]|[ \t]|[\w-]{1,100}=)[^{}\n]{0,500}\}")
_ROLE = re.compile(r"\{[\w:+.-]{1,100}\}(?P<ticks>`{1,8})(?!`)[^`\n]{1,1000}(?P=ticks)(?!`)")
_SCRIPT = re.compile(r"(?<!~)~(?!~)[^\s~]{1,50}~(?!~)|\^(?!\[)[^\s^]{1,50}\^")
_KEYS = re.compile(r"[\w-]+(?:\+[\w-]+)+")
_BRACKET_MATH = re.compile(
    r"(?P<slashes>\\{1,2})(?:\([^\n]{1,500}?(?P=slashes)\)|\[(?P<display>.{1,500}?)(?P=slashes)\])", re.DOTALL
)
_MATH_SIGN = re.compile(r"[\^_=+]|\\[A-Za-z]")
_DIRECTIVE = re.compile(rf"(?<![\w:]):[A-Za-z][\w-]{{0,100}}{_LABEL}(?:{_ATTRIBUTES})?")


def use_extensions(markdown: MarkdownIt) -> None:
    """Adds the rules."""
    markdown.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True).use(amsmath_plugin)
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    block, inline = markdown.block.ruler, markdown.inline.ruler
    block.before("table", "toml_front_matter", _toml_front_matter)
    for name, rule in (("nested", _nested), ("fenced", _fenced), ("kept_lines", _kept_lines)):
        block.before("fence", name, rule, interrupts)
    inline.before("escape", "bracket_math", _bracket_math)
    inline.before("strikethrough", "script", _script)
    inline.before("link", "wiki_link", _wiki_link)
    inline.before("backticks", "role", _role)
    inline.before("html_inline", "component_tag", _component_tag)
    inline.after("backticks", "attributes", _attributes)
    inline.after("backticks", "directive", _directive)
    inline.after("backticks", "marked", _marked)


def _toml_front_matter(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if start or _line(state, 0) != "+++" or silent:
        return False
    closing = next((line for line in range(1, end) if _line(state, line) == "+++"), None)
    if closing is None:
        return False
    token = state.push("front_matter", "", 0)
    token.markup, token.map = "+++", [0, closing + 1]
    state.line = closing + 1
    return True


def _kept_lines(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Lines without text, but for a title."""
    at, line = _begin(state, start), _line(state, start)
    if state.is_code_block(start) or line[:1] not in tuple(":{[<ie*"):
        return False
    after, title = start + 1, (0, 0)
    if found := _CONTAINER.fullmatch(line):
        name = next((one for one in ("leaf_label", "title", "abbreviated", "label") if found[one]), None)
        title = found.span(name) if name else title
        if _NAME_IN_BRACES.match(line):
            while after < end and _FENCE_OPTION.match(_line(state, after)):
                after += 1
    elif _KEPT_LINE.fullmatch(line):
        pass
    elif line[0] == "<":
        tag = _component(state, at)
        if not tag:
            return False
        after += state.src.count("\n", at, tag)
        if after > end or state.src[tag : state.eMarks[after - 1]].strip():
            return False
    elif _MODULE.match(state.src, at):
        while after < end and not state.isEmpty(after):
            after += 1
    else:
        return False
    if silent:
        return True
    _push_title(state, start, title)
    state.push("kept", "", 0).map = [start, after]
    state.line = after
    return True


def _nested(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """An admonition or a tab, whose content is indented."""
    found = None if state.is_code_block(start) else _ADMONITION.fullmatch(_line(state, start))
    indent = state.blkIndent + 4
    following = next((line for line in range(start + 1, end) if not state.isEmpty(line)), end)
    if not found or following == end or state.sCount[following] < indent:
        return False
    after = following
    while after < end and (state.isEmpty(after) or state.sCount[after] >= indent):
        after += 1
    if not silent:
        _push_title(state, start, found.span("tab" if found["tab"] else "title"))
        _tokenize(state, start + 1, after, indent)
        state.line = after
    return True


def _fenced(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A directive of MyST between fences."""
    found = None if state.is_code_block(start) else _FENCE.fullmatch(_line(state, start))
    if not found:
        return False
    fence = found["fence"]
    closing = start + 1
    while closing < end and not (_line(state, closing).startswith(fence) and not _line(state, closing).strip(fence[0])):
        closing += 1
    if silent:
        return True
    _push_title(state, start, found.span("title"))
    first = start + 1
    while first < closing and _FENCE_OPTION.match(_line(state, first)):
        first += 1
    _tokenize(state, first, closing, state.blkIndent)
    state.line = min(closing + 1, end)
    return True


def _tokenize(state: StateBlock, start: int, end: int, indent: int) -> None:
    """Parses the blocks of lines [start, end), which are in another block."""
    old_max, old_indent = state.lineMax, state.blkIndent
    state.lineMax, state.blkIndent = end, indent
    state.push("nested_open", "", 1)
    state.md.block.tokenize(state, start, end)
    state.push("nested_close", "", -1)
    state.lineMax, state.blkIndent = old_max, old_indent


def _push_title(state: StateBlock, line: int, span: tuple[int, int]) -> None:
    """Pushes the characters [start, end) of a line as inline text, if any."""
    start, end = span
    if end <= start:
        return
    at = _begin(state, line)
    column = at - state.src.rfind("\n", 0, at) - 1
    state.push(TITLE, "", 1).meta = {"column": column + start}
    token = state.push("inline", "", 0)
    token.content, token.map = state.src[at + start : at + end], [line, line + 1]
    state.push("title_close", "", -1)


def _begin(state: StateBlock, line: int) -> int:
    return state.bMarks[line] + state.tShift[line]


def _line(state: StateBlock, line: int) -> str:
    """A line without its prefix, indentation and the white space at its end."""
    return state.src[_begin(state, line) : state.eMarks[line]].rstrip(" \t")


def _component(state: StateBlock | StateInline, at: int) -> int:
    """The end of a component's tag that begins at `at`; 0 if there is none."""
    found = _COMPONENT.match(state.src, at, at + _MAX_TAG_CHARS)
    if not found or "\n\n" in found[0] or not _IS_COMPONENT.match(found[0]):
        return 0
    return found.end()


def _push_raw(state: StateInline, kind: str, end: int, content: str = "") -> None:
    """Pushes the text up to `end` as one token."""
    token = state.push(kind, "", 0)
    token.content, token.meta = content, {"raw": state.src[state.pos : end]}
    state.pos = end


def _push_pair(state: StateInline, kind: str, start: int, end: int, after: int) -> None:
    """Pushes tokens for the text up to `after`, with inline content in [start, end)."""
    opening, closing = state.src[state.pos : start], state.src[end:after]
    maximum = state.posMax
    state.push(f"{kind}_open", kind, 1).meta = {"raw": opening}
    state.pos, state.posMax = start, end
    state.md.inline.tokenize(state)
    state.push(f"{kind}_close", kind, -1).meta = {"raw": closing}
    state.pos, state.posMax = after, maximum


def _rule(
    pattern: re.Pattern[str], first: str, push: Callable[[StateInline, re.Match[str]], None]
) -> Callable[[StateInline, bool], bool]:
    """A rule for what matches at a character that is one of `first`: `push` pushes it; if silent, it is skipped."""

    def rule(state: StateInline, silent: bool) -> bool:
        found = pattern.match(state.src, state.pos, state.posMax) if state.src[state.pos] in first else None
        if found and silent:
            state.pos = found.end()
        elif found:
            push(state, found)
        return found is not None

    return rule


def _push_wiki_link(state: StateInline, found: re.Match[str]) -> None:
    if found["text"]:
        _push_pair(state, "wiki", *found.span("text"), found.end())
    else:
        _push_raw(state, "code", found.end(), found[0].strip("![]"))


_script = _rule(_SCRIPT, "~^", lambda state, it: _push_pair(state, "script", it.start() + 1, it.end() - 1, it.end()))
"""Text below or above the line."""
_wiki_link = _rule(_WIKI_LINK, "![", _push_wiki_link)
_role = _rule(_ROLE, "{", lambda state, found: _push_raw(state, "code", found.end(), found[0]))
_attributes = _rule(_ATTRIBUTE_LIST, "{", lambda state, found: _push_raw(state, "attributes", found.end()))
_directive = _rule(_DIRECTIVE, ":", lambda state, it: _push_pair(state, "directive", *it.span("label"), it.end()))


def _marked(state: StateInline, silent: bool) -> bool:
    """Text between two pairs of equals or plus signs; the latter may be around keys."""
    start, source = state.pos + 2, state.src
    sign = source[state.pos : start]
    if sign not in ("==", "++") or source[start : start + 1].strip(f" {sign}\n") == "":
        return False
    end = source.find(sign, start, state.posMax)
    if end < 0 or source[end - 1].isspace() or source[end + 2 : end + 3] == sign[0]:
        return False
    if sign == "++" and (source[state.pos - 1 : state.pos].isalnum() or source[end + 2 : end + 3].isalnum()):
        return False
    if silent:
        state.pos = end + 2
    elif sign == "++" and _KEYS.fullmatch(source, start, end):
        _push_raw(state, "code", end + 2, source[start:end])
    else:
        _push_pair(state, "mark", start, end, end + 2)
    return True


def _bracket_math(state: StateInline, silent: bool) -> bool:
    found = _BRACKET_MATH.match(state.src, state.pos, state.posMax) if state.src[state.pos] == "\\" else None
    if not found or (found["display"] and not _MATH_SIGN.search(found["display"])):
        return False  # words in brackets, perhaps
    if silent:
        state.pos = found.end()
    else:
        _push_raw(state, "math_inline", found.end(), found[0].strip("\\()[] \n") or found[0])
    return True


def _component_tag(state: StateInline, silent: bool) -> bool:
    end = _component(state, state.pos) if state.src[state.pos] == "<" else 0
    if end and end <= state.posMax and not silent:
        token = state.push("html_inline", "", 0)
        token.content = state.src[state.pos : end]
    if end and end <= state.posMax:
        state.pos = end
    return 0 < end <= state.posMax
