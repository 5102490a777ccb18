"""app/formats/: catalogues of Java's and Apple's applications: only their values change, and independent readers
find the translations."""

from __future__ import annotations

import json
import plistlib
from collections.abc import Callable
from typing import Any

import javaproperties
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from translate.storage import properties as toolkit

from app.formats import UnreadableDocument, read
from tests.app.formats.test_formats import ENCODINGS, as_it_was, shouted, texts

PROPERTIES = r"""# A comment = not a value
! another: one

title = Hello
path:C\:\\Files
  long.key\ with\ space   This is \
      one value \
      in three lines
tab=\ta\tb
empty=
none
lines=First line.\n\
    Second line.
number=42
quoted=Can''t open {0}, {1,number}
count={0} files
"""
STRINGS = r"""/* A comment; "not" = "a value"; */
"title" = "Hello";
// Another "one" = "here";
"with \"quotes\"" = "Say \"%@\" to %1$@\nnow"; plain_key="Word";
"number" = "42";
"lines" = "One
two";
'single' = 'It\'s "me"';
"""
STRINGSDICT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
\t<key>files</key>
\t<dict>
\t\t<key>NSStringLocalizedFormatKey</key>
\t\t<string>%#@count@ &amp; more</string>
\t\t<key>count</key>
\t\t<dict>
\t\t\t<key>NSStringFormatSpecTypeKey</key>
\t\t\t<string>NSStringPluralRuleType</string>
\t\t\t<key>NSStringFormatValueTypeKey</key>
\t\t\t<string>d</string>
\t\t\t<key>zero</key>
\t\t\t<string>No files</string>
\t\t\t<key>one</key>
\t\t\t<string>%d file</string>
\t\t\t<!-- the rest -->
\t\t\t<key>other</key>
\t\t\t<string>%d files</string>
\t\t</dict>
\t</dict>
\t<key>wide</key>
\t<dict>
\t\t<key>NSStringVariableWidthRuleType</key>
\t\t<dict>
\t\t\t<key>20</key>
\t\t\t<string>Short</string>
\t\t</dict>
\t</dict>
</dict>
</plist>
"""
XCSTRINGS = """{
  "sourceLanguage" : "en",
  "strings" : {
    "" : {

    },
    "%lld files" : {
      "comment" : "How many",
      "localizations" : {
        "en" : {
          "variations" : {
            "plural" : {
              "one" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld file"
                }
              },
              "other" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld files"
                }
              }
            }
          }
        },
        "zh-Hans" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "%lld 个文件"
          }
        }
      }
    },
    "Done" : {
      "localizations" : {
        "fr" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "Terminé"
          }
        }
      }
    },
    "Hello" : {

    },
    "Interlinear" : {
      "shouldTranslate" : false
    },
    "New" : {
      "extractionState" : "manual",
      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "Neu"
          }
        },
        "fr" : {
          "stringUnit" : {
            "state" : "new",
            "value" : ""
          }
        }
      }
    }
  },
  "version" : "1.0"
}"""
WITHOUT_CHANGE = {".properties": PROPERTIES, ".strings": STRINGS, ".stringsdict": STRINGSDICT, ".xcstrings": XCSTRINGS}


@pytest.mark.parametrize("encode", ENCODINGS)
@pytest.mark.parametrize("suffix", WITHOUT_CHANGE)
def test_unchanged_texts_reproduce_the_catalogue_byte_for_byte(suffix: str, encode: Callable[[str], bytes]) -> None:
    text = WITHOUT_CHANGE[suffix]
    content = encode(text.replace('encoding="UTF-8"', "") if suffix == ".stringsdict" else text)
    document = read(f"a{suffix}", content)
    assert document.passages or suffix == ".xcstrings"
    assert as_it_was(document) == content


def test_only_the_values_of_properties_change() -> None:
    document = read("a.properties", PROPERTIES.encode())
    assert texts(document) == [
        "Hello",
        "C:\\Files",
        "This is one value in three lines",
        "\ta\tb",
        "First line.\nSecond line.",
        "Can't open {0}, {1,number}",
        "{0} files",
    ]
    written = shouted(document).decode()
    before, after = javaproperties.loads(PROPERTIES), javaproperties.loads(written)
    assert list(after) == list(before)
    assert after == {key: value.upper() for key, value in before.items()}
    kept = [line for line in PROPERTIES.splitlines() if line.startswith(("#", "!", "empty", "none", "number"))]
    assert [line for line in written.splitlines() if line in kept] == kept
    assert "lines=FIRST LINE.\\n\\\n    SECOND LINE.\n" in written
    assert "CAN''T OPEN" in written


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a=Hello", b"a=d\\u00E9j\\u00E0 \\u732B \\uD83D\\uDE00"),
        ("# é\na=Hello".encode(), "# é\na=déjà 猫 😀".encode()),
        ("# é\na=Hello".encode("latin-1"), "# é\na=déjà \\u732B \\uD83D\\uDE00".encode("latin-1")),
        (b"a=Hello\nb=\\u00e9", b"a=d\\u00E9j\\u00E0 \\u732B \\uD83D\\uDE00\nb=\\u00e9"),
        ("\ufeffa=Hello".encode("utf-16-le"), "\ufeffa=déjà 猫 😀".encode("utf-16-le")),
    ],
)
def test_properties_keep_their_encoding(content: bytes, expected: bytes) -> None:
    document = read("a.properties", content)
    translations = ["déjà 猫 😀", *texts(document)[1:]]
    assert document.write(translations) == expected


def test_apostrophes_in_a_java_message_quote_nothing() -> None:
    for source, written in [("Open {0}", "l’{0}"), ("Don''t {0}", "l''{0}"), ("Open", "l'"), ("'{'{0}'}' a", "l'{0}")]:
        document = read("a.properties", f"# é\na={source}".encode())
        [passage] = document.passages
        argument = "{0}" if "{0}" in source else ""
        assert document.write([passage.write("l'") + argument]).decode() == f"# é\na={written}"


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=4), st.booleans())
def test_any_properties_are_read_as_java_reads_them(values: dict[str, str], ascii_only: bool) -> None:
    content = javaproperties.dumps(values, timestamp=False, ensure_ascii=ascii_only).encode(errors="replace")
    values = javaproperties.loads(content.decode())
    document = read("a.properties", content)
    assert as_it_was(document) == content
    with_letters = [value for value in values.values() if any(map(str.isalpha, value))]
    if not any("{" in value or "&" in value or "_" in value for value in with_letters):
        assert texts(document) == with_letters
        translated = document.write([f" \\{value}\n=é" for value in with_letters])
        assert list(javaproperties.loads(translated.decode()).values()) == [
            f" \\{value}\n=é" if value in with_letters else value for value in values.values()
        ]


def test_malformed_escape_is_refused_by_line() -> None:
    with pytest.raises(UnreadableDocument, match="Line 2 has a"):
        read("a.properties", b"a=b\nc=\\u12g4")


def parsed_strings(content: bytes) -> dict[str, str]:
    """Keys and values according to translate-toolkit."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    store = toolkit.stringsfile(encoding=encoding) if encoding == "utf-16" else toolkit.stringsutf8file()
    store.parse(content)
    return {unit.name: unit.source for unit in store.units if unit.name}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_only_the_values_of_strings_change(encoding: str) -> None:
    document = read("a.strings", STRINGS.encode(encoding))
    assert texts(document) == ["Hello", 'Say "%@" to %1$@\nnow', "Word", "One\ntwo", 'It\'s "me"']
    written = shouted(document)
    expected = (
        STRINGS.replace("Hello", "HELLO").replace(r'Say \"%@\" to %1$@\nnow', r'SAY \"%@\" TO %1$@\nNOW')
        .replace("Word", "WORD").replace("One\ntwo", "ONE\nTWO").replace(r"It\'s", r"IT\'S").replace('"me"', '"ME"')
    )  # fmt: skip
    assert written.decode(encoding) == expected
    simple = "\n".join([*STRINGS.splitlines()[:5], '"number" = "42";', ""])
    toolkits = parsed_strings(shouted(read("a.strings", simple.encode(encoding))))
    assert toolkits["title"] == "HELLO" and toolkits["number"] == "42"


def test_strings_with_escapes_stay_within_ascii() -> None:
    document = read("a.strings", b'"a" = "d\\U00e9j\\U00e0";')
    assert texts(document) == ["déjà"]
    assert document.write(["été 😀"]) == b'"a" = "\\U00E9t\\U00E9 \\UD83D\\uDE00";'.replace(b"\\u", b"\\U")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'"a" = "b"\n"c" = "d";', "line 1 is not"),
        (b'"a" = "b";\n\n"c" = {', "line 3 is not"),
        (b'/* never closed\n"a" = "b";', "line 1 is not"),
        (b"bplist00\x00", "binary property list"),
        ('"a" = "b";'.encode("utf-16-le"), "UTF-16 or UTF-32 that does not say so"),
    ],
)
def test_unreadable_strings_are_refused_by_line(content: bytes, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read("a.strings", content)


def test_strings_that_are_xml_are_read_as_a_property_list() -> None:
    content = plistlib.dumps({"a": "Fish & chips", "b": "<b>Hi</b>", "n": 1})
    document = read("a.strings", content)
    assert texts(document) == ["Fish & chips", "<b>Hi</b>"]
    assert plistlib.loads(shouted(document)) == {"a": "FISH & CHIPS", "b": "<B>HI</B>", "n": 1}


@pytest.mark.parametrize(
    ("target", "forms"),
    [
        ("", ["zero", "one", "other"]),
        ("de", ["zero", "one", "other"]),
        ("fr", ["zero", "one", "many", "other"]),
        ("zh", ["zero", "other"]),
        ("ru", ["zero", "one", "few", "many", "other"]),
    ],
)
def test_stringsdict_gets_the_plural_categories_of_the_target(target: str, forms: list[str]) -> None:
    written = shouted(read("a.stringsdict", STRINGSDICT.encode(), target))
    parsed = plistlib.loads(written)
    count = parsed["files"]["count"]
    assert [key for key in count if not key.startswith("NS")] == forms
    expected = {"zero": "NO FILES", "one": "%d FILE"}
    assert all(count[form] == expected.get(form, "%d FILES") for form in forms)
    assert parsed["files"]["NSStringLocalizedFormatKey"] == "%#@COUNT@ & MORE"
    assert parsed["wide"] == {"NSStringVariableWidthRuleType": {"20": "SHORT"}}
    old, new = STRINGSDICT.splitlines(), written.decode().splitlines()
    assert [line for line in new if line in old] == [
        line for line in old if line in new
    ] and "\t\t\t<!-- the rest -->" in new
    if target == "fr":
        assert "\t\t\t<key>many</key>\n\t\t\t<string>%d FILES</string>\n\t\t\t<key>other</key>" in written.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("<plist><dict><key>a</key></dict></plist>", "do not alternate"),
        ("<plist><array/></plist>", "has no dictionary"),
        ("<dict/>", "its root is dict"),
        ("<plist>", "not well-formed"),
        ('<!DOCTYPE plist [<!ENTITY a "b">]><plist><dict/></plist>', "declarations in its DOCTYPE"),
        ("<plist>" + "<dict><key>a</key>" * 300 + "</dict>" * 300 + "</plist>", "nested too deeply"),
        ("<plist><dict>" + "<key/><true/>" * 210_000 + "</dict></plist>", "over 400000 elements"),
    ],
)
def test_hostile_property_lists_are_refused(text: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read("a.stringsdict", text.encode())


def without(value: Any, *languages: str) -> Any:
    """A catalogue without its localisations into these languages."""
    if not isinstance(value, dict):
        return value
    return {key: without(inner, *languages) for key, inner in value.items() if key not in languages}


def test_string_catalogue_gets_localisations_to_review() -> None:
    document = read("a.xcstrings", XCSTRINGS.encode(), "fr")
    assert texts(document) == ["25 files", "1 file", "25 files", "Hello", "New"]
    written = shouted(document).decode()
    strings = json.loads(written)["strings"]

    def unit(value: str) -> dict[str, Any]:
        return {"stringUnit": {"state": "needs_review", "value": value}}

    assert strings["Hello"]["localizations"] == {"fr": unit("HELLO")}
    assert strings["New"]["localizations"]["fr"] == unit("NEW")
    assert strings["Done"]["localizations"]["fr"]["stringUnit"]["value"] == "Terminé"
    plural = strings["%lld files"]["localizations"]["fr"]["variations"]["plural"]
    assert plural == {"many": unit("%lld FILES"), "one": unit("%lld FILE"), "other": unit("%lld FILES")}
    assert list(strings["%lld files"]["localizations"]) == ["en", "fr", "zh-Hans"]
    assert "localizations" not in strings["Interlinear"] and strings[""] == {}
    before = json.loads(XCSTRINGS)
    after = without(json.loads(written), "fr")
    after["strings"]["Hello"] = {}
    assert after == without(before, "fr")


def test_string_catalogue_keeps_the_layout_of_xcode() -> None:
    written = shouted(read("a.xcstrings", XCSTRINGS.encode(), "fr")).decode()
    assert json.dumps(json.loads(written), indent=2, separators=(",", " : "), ensure_ascii=False) == written.replace(
        "{\n\n    }", "{}"
    )
    one_line = json.dumps(json.loads(XCSTRINGS))
    written = shouted(read("a.xcstrings", one_line.encode(), "fr")).decode()
    assert json.dumps(json.loads(written)) == written
    again = read("a.xcstrings", written.encode(), "fr")
    assert not again.passages and as_it_was(again) == written.encode()


def test_other_source_language_of_a_string_catalogue_is_translated() -> None:
    document = read("a.xcstrings", XCSTRINGS.encode(), "en", source="fr")
    assert texts(document) == ["Terminé"]
    assert texts(read("a.xcstrings", XCSTRINGS.encode(), "zh-Hans", source="en")) == ["Done", "Hello", "New"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", "no sourceLanguage"),
        ("[]", "no sourceLanguage"),
        ('{"sourceLanguage": "en", "strings": []}', "no strings"),
        ("[" * 200_000, "nested too deeply"),
        ('{"sourceLanguage": "en", "strings": {"\\ud800a": {}}}', "lone surrogate"),
        (
            '{"sourceLanguage": "en", "strings": {"a": {"localizations": {"en": ' + '{"a":' * 40 + "1" + "}" * 44,
            "nested too deeply",
        ),
    ],
)
def test_unreadable_string_catalogue_is_refused(text: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault):
        read("a.xcstrings", text.encode(), "fr")


@given(st.dictionaries(st.text(), st.text(), max_size=4), st.sampled_from([None, 2]))
@example({"localizations": "a", "strings": "", "fr": "a"}, 2)
def test_any_string_catalogue_keeps_its_structure(values: dict[str, str], indent: int | None) -> None:
    localized = {"localizations": {"en": {"stringUnit": {"state": "translated", "value": "a {b"}}, "zz": {}}}
    strings = {key: {"comment": value} if value else localized for key, value in values.items()}
    catalogue = {"sourceLanguage": "en", "strings": strings, "version": "1.0"}
    content = json.dumps(catalogue, indent=indent).encode()
    document = read("a.xcstrings", content, "fr")
    after = without(json.loads(shouted(document)), "fr")
    for entry in after["strings"].values():
        if "comment" in entry:
            entry.pop("localizations", None)
    assert after == without(catalogue, "fr")


@pytest.mark.parametrize(
    ("nest", "depth", "fault"),
    [
        ('"plural":{"other":{', 25, "a plural within a plural"),
        ('"variations":{"plural":{"one":{', 2, "a plural within a plural"),
        ('"device":{"mac":{', 8, "nested too deeply"),
    ],
)
def test_localization_that_xcode_does_not_write_is_refused_by_its_key(nest: str, depth: int, fault: str) -> None:
    unit = '"stringUnit": {"state": "new", "value": "word"}'
    inner = nest * depth + unit + "}" * nest.count("{") * depth
    text = f'{{"sourceLanguage": "en", "strings": {{"a\\nkey": {{"localizations": {{"en": {{{inner}}}}}}}}}}}'
    with pytest.raises(UnreadableDocument, match=fault) as refused:
        read("a.xcstrings", text.encode(), "ar")
    assert str(refused.value).startswith(r'The localization of "a\nkey" ')
    assert len(str(refused.value).splitlines()) == 1
