"""String: every method of str, here and through a pointer, does what str does."""

import inspect

import pytest

import syft as sy
from syft.core.labels import tags_of
from syft.core.string import COMPARISONS, METHODS, OPERATORS, String
from syft.exceptions import CommandNotAllowedError, GetNotPermittedError, SpentPointerError
from syft.generic import string as documented
from syft.hook.allowed_functions import function_of

ROWS = (
    "String String.send String.get_class_attributes String.on String.add_string String.create_pointer "
    "String.simplify String.detail"
).split()

# method -> calls (text, args, kwargs); every public method of str has at least one.
CALLS: dict[str, list[tuple[str, tuple, dict]]] = {
    "capitalize": [("hello WORLD", (), {}), ("", (), {})],
    "casefold": [("Straße", (), {})],
    "center": [("ab", (7,), {}), ("ab", (7, "*"), {}), ("ab", (1,), {})],
    "count": [("banana", ("an",), {}), ("banana", ("a", 2), {}), ("banana", ("a", 2, 4), {})],
    "encode": [("Straße", (), {}), ("abc", ("utf-16",), {}), ("ß", (), {"encoding": "ascii", "errors": "replace"})],
    "endswith": [("hello", ("lo",), {}), ("hello", (("x", "lo"),), {}), ("hello", ("el", 0, 3), {})],
    "expandtabs": [("a\tb", (), {}), ("a\tb", (3,), {}), ("a\tb", (), {"tabsize": 2})],
    "find": [("banana", ("n",), {}), ("banana", ("x",), {}), ("banana", ("a", 2, 5), {})],
    "format": [("{} {0!r:>5} {x:.2f}".replace("{0!r", "{!r"), (1, "a"), {"x": 2.0})],
    "format_map": [("{a}-{b}", ({"a": 1, "b": "two"},), {})],
    "index": [("banana", ("n",), {}), ("banana", ("a", 2), {})],
    "isalnum": [("a1", (), {}), ("a 1", (), {})],
    "isalpha": [("ab", (), {}), ("a1", (), {})],
    "isascii": [("ab", (), {}), ("ß", (), {})],
    "isdecimal": [("12", (), {}), ("²", (), {})],
    "isdigit": [("12²", (), {}), ("a", (), {})],
    "isidentifier": [("a_1", (), {}), ("1a", (), {})],
    "islower": [("ab", (), {}), ("aB", (), {})],
    "isnumeric": [("½", (), {}), ("a", (), {})],
    "isprintable": [("ab", (), {}), ("a\n", (), {})],
    "isspace": [(" \t", (), {}), (" a", (), {})],
    "istitle": [("Ab Cd", (), {}), ("ab", (), {})],
    "isupper": [("AB", (), {}), ("Ab", (), {})],
    "join": [(", ", (["a", "b", "c"],), {}), ("-", (("x",),), {}), ("-", ([],), {})],
    "ljust": [("ab", (5,), {}), ("ab", (5, "."), {})],
    "lower": [("ABc", (), {})],
    "lstrip": [("  ab ", (), {}), ("xxab", ("x",), {})],
    "maketrans": [("", ("ab", "cd"), {}), ("", ({"a": "b"},), {})],
    "partition": [("a,b,c", (",",), {}), ("abc", (",",), {})],
    "removeprefix": [("unhappy", ("un",), {}), ("happy", ("un",), {})],
    "removesuffix": [("cats", ("s",), {}), ("cat", ("s",), {})],
    "replace": [("banana", ("a", "o"), {}), ("banana", ("a", "o", 2), {})],
    "rfind": [("banana", ("a",), {}), ("banana", ("x",), {})],
    "rindex": [("banana", ("a",), {})],
    "rjust": [("ab", (5,), {}), ("ab", (5, "."), {})],
    "rpartition": [("a,b,c", (",",), {}), ("abc", (",",), {})],
    "rsplit": [("a b c", (), {}), ("a,b,c", (",", 1), {}), ("a,b,c", (), {"sep": ",", "maxsplit": 1})],
    "rstrip": [(" ab  ", (), {}), ("abxx", ("x",), {})],
    "split": [("a b  c", (), {}), ("a,b,c", (",", 1), {}), ("a,b", (), {"sep": ","}), ("", (), {})],
    "splitlines": [("a\nb\r\nc", (), {}), ("a\nb", (True,), {}), ("a\nb", (), {"keepends": True})],
    "startswith": [("hello", ("he",), {}), ("hello", (("x", "he"),), {}), ("hello", ("l", 2), {})],
    "strip": [("  ab  ", (), {}), ("xabx", ("x",), {})],
    "swapcase": [("aBc", (), {})],
    "title": [("hello world", (), {})],
    "translate": [("hello", (str.maketrans("lo", "01"),), {}), ("hello", ({108: None},), {})],
    "upper": [("aBß", (), {})],
    "zfill": [("42", (5,), {}), ("-42", (5,), {})],
    "__add__": [("ab", ("cd",), {})],
    "__mul__": [("ab", (3,), {}), ("ab", (0,), {})],
    "__rmul__": [("ab", (3,), {})],
    "__mod__": [("%s and %d", (("a", 3),), {}), ("%5.1f", (2.25,), {})],
    "__getitem__": [("hello", (1,), {}), ("hello", (-1,), {}), ("hello", (slice(1, 4, 2),), {})],
    "__contains__": [("hello", ("ell",), {}), ("hello", ("x",), {})],
    "__lt__": [("a", ("b",), {}), ("b", ("a",), {})],
    "__le__": [("a", ("a",), {}), ("b", ("a",), {})],
    "__gt__": [("a", ("b",), {}), ("b", ("a",), {})],
    "__ge__": [("a", ("a",), {}), ("a", ("b",), {})],
    "__len__": [("", (), {}), ("hello", (), {})],
}  # fmt: skip
# Format strings reach into the attributes of their arguments, so no worker runs them for a peer.
LOCAL_ONLY = {"format", "format_map", "maketrans"}
EVERY = [pytest.param(name, *call, id=f"{name}-{i}") for name, calls in CALLS.items() for i, call in enumerate(calls)]
REMOTE = [case for case in EVERY if case.values[0] not in LOCAL_ONLY]


def plain(value):
    """The plain value of a result: texts out of Strings, containers walked; each text must have been a String."""
    if isinstance(value, sy.StringPointer):
        value = value.get()
    if isinstance(value, String):
        return value.child
    assert not isinstance(value, str)
    return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value


def wrapped(value):
    """The same arguments with every text in a String."""
    if isinstance(value, str):
        return String(value)
    return type(value)(map(wrapped, value)) if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("row", ROWS)
def test_documented_names_are_there(row):
    """Rows: every name of syft.generic.string."""
    found = documented
    for part in row.split("."):
        found = getattr(found, part)
    assert callable(found)


def test_every_method_of_str_is_tried():
    public = {name for name in dir(str) if not name.startswith("_")}
    assert public - set(CALLS) == set()
    assert {*METHODS, *OPERATORS, *COMPARISONS} - set(CALLS) == set()
    assert public - set(METHODS) == LOCAL_ONLY
    assert public - set(dir(String)) == set()


@pytest.mark.parametrize(("name", "text", "args", "kwargs"), EVERY)
def test_here(name, text, args, kwargs):
    """Row: String: the methods of str."""
    expected = getattr(text, name)(*args, **kwargs)
    result = getattr(String(text), name)(*args, **kwargs)
    assert (result if name == "maketrans" else plain(result)) == expected


@pytest.mark.parametrize(
    ("name", "text", "args", "kwargs"), [case for case in REMOTE if case.values[2] or case.values[3]]
)
def test_here_with_strings_as_arguments(name, text, args, kwargs):
    """Row: String: the methods of str, with Strings anywhere in the arguments."""
    given = {key: wrapped(value) for key, value in kwargs.items()}
    assert plain(getattr(String(text), name)(*wrapped(args), **given)) == getattr(text, name)(*args, **kwargs)


@pytest.mark.parametrize(("name", "text", "args", "kwargs"), REMOTE)
def test_there(bob, name, text, args, kwargs):
    """Row: StringPointer: str methods run remotely."""
    pointer = String(text).send(bob)
    result = getattr(pointer, name)(*args, **kwargs)
    if isinstance(getattr(text, name)(*args, **kwargs), str):
        assert isinstance(result, sy.StringPointer)
    assert plain(result) == getattr(text, name)(*args, **kwargs)
    assert pointer.get() == text
    del pointer, result
    assert bob._objects == {}


@pytest.mark.parametrize("name", ["upper", "split", "partition", "encode", "count", "join", "__len__", "__getitem__"])
def test_there_in_every_way_of_travelling(make_worker, kind, name):
    bob = make_worker("bob", kind)
    for text, args, kwargs in CALLS[name]:
        pointer = String(text).send(bob)
        given = {key: wrapped(value) for key, value in kwargs.items()}
        assert plain(getattr(pointer, name)(*wrapped(args), **given)) == getattr(text, name)(*args, **kwargs)
    del pointer
    bob.synchronize()
    assert bob._objects == {}


def test_pointers_as_arguments(bob, nothing_left):
    there = {text: String(text).send(bob) for text in ("hello", "ell", ",", "he")}
    assert there["ell"] in there["hello"]
    assert (there["hello"] + there["ell"]).get() == "helloell"
    assert there[","].join([there["he"], "x", there["ell"]]).get() == "he,x,ell"
    assert there["hello"].startswith((there["ell"], there["he"]))
    assert there["hello"].replace(there["ell"], there[","]).get() == "h,o"
    del there
    nothing_left(bob)


def test_operators_read_as_for_str(bob):
    here, there = String("ab"), String("ab").send(bob)
    assert "x" + here == "xab"
    assert isinstance("x" + here, String)
    assert 2 * here == here + here == "abab"
    assert f"{here:>4}|{here}" == "  ab|ab"
    assert [str(letter) for letter in here] == ["a", "b"]
    assert (2 * there).get() == "abab"
    assert [letter.get() for letter in there] == ["a", "b"]
    assert len(there) == 2
    assert there < "b"
    assert not String("")
    with pytest.raises(TypeError):
        3 + here


def test_errors_of_str_come_back(bob):
    for text in (String("abc"), String("abc").send(bob)):
        with pytest.raises(ValueError, match="substring not found"):
            text.index("x")
        with pytest.raises(IndexError):
            text[7]
        with pytest.raises(ValueError, match="empty separator"):
            text.split("")


@pytest.mark.parametrize("name", sorted(LOCAL_ONLY))
def test_formats_are_not_run_for_a_peer(bob, name):
    assert not hasattr(String("{0}").send(bob), name)
    with pytest.raises(CommandNotAllowedError):
        function_of(f"str.{name}")


@pytest.mark.parametrize("name", ["__class__", "__reduce__", "__init__", "__format__", "__getattribute__"])
def test_other_attributes_of_str_are_no_commands(name):
    with pytest.raises(CommandNotAllowedError):
        function_of(f"str.{name}")


class OnlyPublic:
    """An owner's own rule."""

    def allows(self, release):
        return "public" in tags_of(release.obj)


def test_an_answer_needs_the_release_of_every_text_it_is_computed_from(bob):
    secret = String("secret").send(bob)
    public = String("secret, or not", tags=["public"]).send(bob)
    bob.policy = OnlyPublic()
    assert public.startswith("secret")
    for ask in (
        lambda: secret.startswith("s"),
        lambda: secret in public,
        lambda: public.startswith((secret, "x")),  # one level down
        lambda: len(secret),
        lambda: secret.encode(),
        lambda: secret < "t",
        lambda: secret.get(),
    ):
        with pytest.raises(GetNotPermittedError, match=bob.id):
            ask()


# The object itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), ""),
        ((None,), ""),
        (("abc",), "abc"),
        ((3.5,), "3.5"),
        ((String("x"),), "x"),
        ((b"\xc3\x9f", "utf-8"), "ß"),
        ((b"\xff", "ascii", "ignore"), ""),
        ((b"ab", None, "strict"), "ab"),
    ],
)
def test_made_as_str_is(args, text):
    """Row: String(object, encoding, errors)."""
    assert String(*args).child == text
    assert type(String(*args).child) is str


def test_signature():
    """Row: String(object, encoding, errors, id, owner, tags, description)."""
    names = list(inspect.signature(String).parameters)
    assert names == ["object", "encoding", "errors", "id", "owner", "tags", "description"]
    text = String("x", id="i", tags=["a", "b"], description="d")
    assert (text.id, text.tags, text.description) == ("i", {"a", "b"}, "d")


def test_equality_and_hash_are_those_of_the_text():
    assert String("a") == "a" == String("a") != String("b")
    assert String("a") != 3
    assert {String("a"): 1}["a"] == 1
    assert len({String("a"), String("a"), "a"}) == 1
    assert str(String("a")) == "a"
    assert repr(String("a")) == "String('a')"


def test_on_and_add_string():
    """Rows: String.on, String.add_string."""
    text = String("a")
    assert text.on("b") is text
    assert text == "b"
    assert text.add_string(String("c")) == text.add_string("c") == "bc"


def test_results_inherit_the_owner(bob):
    """Row: String.get_class_attributes."""
    text = String("a b", owner=bob)
    assert text.get_class_attributes() == {"owner": bob}
    results = [text.upper(), text + "x", text.add_string("x"), *text.split(), text.format(), "x" + text]
    assert all(result.owner is bob for result in results)


def test_send_and_get(make_worker, kind, nothing_left):
    """Row: String.send -> StringPointer."""
    bob = make_worker("bob", kind)
    text = String("grüße", tags=["greeting"], description="said by many")
    pointer = text.send(bob, garbage_collect_data=True)
    assert isinstance(pointer, sy.StringPointer)
    assert pointer.location is bob
    assert pointer.tags == {"greeting"}
    assert "grüße" not in repr(pointer)
    back = pointer.get()
    assert isinstance(back, String)
    assert (back.child, back.tags, back.description) == ("grüße", {"greeting"}, "said by many")
    with pytest.raises(SpentPointerError):
        pointer.upper()
    nothing_left(bob)


def test_found_by_its_tag(bob):
    String("x", tags=["#letters"]).send(bob)
    (found,) = bob.search("#letters")
    assert isinstance(found, sy.StringPointer)
    assert found.upper().get() == "X"


def test_create_pointer(bob):
    """Row: String.create_pointer."""
    text = String("abc", owner=bob)
    bob.register_obj(text)
    pointer = String.create_pointer(text, garbage_collect_data=False, ptr_id="p")
    assert isinstance(pointer, sy.StringPointer)
    assert (pointer.location, pointer.id_at_location, pointer.id) == (bob, text.id, "p")
    assert pointer.upper().get() == "ABC"
    del pointer
    assert bob.get_obj(text.id) is text


def test_wire_form(hook):
    """Rows: String.simplify, String.detail."""
    text = String("abc", id=7, tags=["t"], description="d")
    parts = String.simplify(hook.local_worker, text)
    back = String.detail(hook.local_worker, parts)
    assert (back.child, back.id, back.tags, back.description) == ("abc", 7, {"t"}, "d")
    assert back.owner is hook.local_worker
    assert sy.deserialize(text.serialize()) == text
    with pytest.raises(TypeError):
        String.detail(hook.local_worker, (3, 7, set(), None))
