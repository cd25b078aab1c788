"""Errors: one naming scheme, stable codes, a section of the manual each, and short tracebacks in IPython."""

import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import syft as sy
from syft import exceptions
from syft.exceptions import SyftError, manual

PAGE = next((Path(__file__).parent.parent / "docs").rglob("errors.md"))
ALIASES = {
    "CannotRequestObjectAttribute": "CannotRequestObjectAttributeError",
    "CommandNotAllowed": "CommandNotAllowedError",
    "CompressionNotFoundException": "CompressionNotFoundError",
    "InvalidTensorForRemoteGet": "InvalidTensorForRemoteGetError",
    "TensorsNotCollocatedException": "TensorsNotCollocatedError",
    "UnsupportedOperation": "UnsupportedOperationError",
    "TranslationUnavailableError": "PlanTranslationError",
    "WorkerNotFoundException": "WorkerNotFoundError",
}
ERRORS = {cls for cls in vars(exceptions).values() if inspect.isclass(cls) and issubclass(cls, SyftError)}


def test_every_name_ends_in_error_and_old_names_are_aliases():
    for name, cls in vars(exceptions).items():
        if inspect.isclass(cls) and cls in ERRORS:
            assert cls.__name__ == ALIASES.get(name, name)
    assert all(cls.__name__.endswith("Error") for cls in ERRORS)
    assert all(getattr(exceptions, old) is getattr(exceptions, new) for old, new in ALIASES.items())


def test_every_error_has_a_code_of_its_own_in_the_tree():
    tree = dict(re.findall(r"(\w+Error) +(SY\d{3})\b", exceptions.__doc__))
    assert tree == {cls.__name__: cls.code for cls in ERRORS}
    assert len(set(tree.values())) == len(ERRORS)


def test_the_tree_shows_the_bases():
    path = []
    for line in exceptions.__doc__.splitlines():
        match = re.match(r"    ([│ ├└─]*)(\w+Error) +SY", line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [getattr(exceptions, match[2])]
            assert depth == 0 or path[depth - 1] in path[depth].__bases__, line


def test_the_page_has_a_section_for_each_error():
    sections = dict(re.findall(r"^### (SY\d{3}) (\w+)$", PAGE.read_text(), re.MULTILINE))
    assert sections == {cls.code: cls.__name__ for cls in ERRORS}
    for old in ALIASES:
        assert f"`{old}`" in PAGE.read_text()


def test_errors_are_named_by_the_documented_module():
    for cls in ERRORS:
        assert cls.__module__ == "syft.exceptions"
        assert pickle.loads(pickle.dumps(cls)) is cls


def test_the_manual_has_a_text_for_each_error(capsys):
    for cls in ERRORS:
        text = manual.section(cls.code)
        assert text.startswith(f"{cls.code} {cls.__name__}\n") and text == manual.section(cls.__name__.lower())
        assert len(text) > 60 and "](" not in text and "###" not in text
        cls.__new__(cls).explain()
        assert capsys.readouterr().out.strip() == text
    with pytest.raises(ValueError, match=r"'SY999'.*help\(sy\.exceptions\)"):
        exceptions.explain("SY999")


def test_the_command_explains_errors_without_packages_of_nodes():
    code = "import sys; sys.modules['typer'] = None; sys.argv[1:] = {}; from syft.__main__ import main; main()"
    for words, known in ((["explain", "SY302"], True), (["explain", "SY999"], False), (["explain"], False)):
        done = subprocess.run([sys.executable, "-c", code.format(words)], capture_output=True, text=True, timeout=100)
        assert (done.returncode == 0) == known and "Traceback" not in done.stderr
        assert ("SY302 GetNotPermittedError" in done.stdout) == known


# In IPython --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shell():
    found = InteractiveShell.instance(colors="nocolor")
    found.user_ns.update(sy=sy, torch=torch)
    yield found
    found.history_manager.end_session()
    InteractiveShell.clear_instance()


def traceback_of(shell, code):
    """Returns the lines that the shell prints for code that fails."""
    with capture_output() as printed:
        result = shell.run_cell(code)
    assert not result.success
    return [line for line in (printed.stdout + printed.stderr).splitlines() if line.strip()]


def test_a_notebook_hides_the_library_and_ends_with_the_text(hook, shell):
    shell.user_ns.update(bob=sy.VirtualWorker(hook, id="notebook-bob"))
    lines = traceback_of(shell, "x = torch.ones(2).send(bob)\nx.get()\nx.get()")
    assert not [line for line in lines if "syft/" in line or "interactiveshell" in line], lines
    assert any(line.strip().startswith("----> 3 x.get()") for line in lines), lines
    assert lines[-2].startswith("SpentPointerError: ") and "ptr.copy().get()" in lines[-2]
    assert lines[-1] == "More: sy.exceptions.explain('SY109')"


def test_a_function_of_the_user_between_library_frames_is_shown(shell):
    code = "def forward(x):\n    return x.get()\ndef outer():\n    return forward(torch.ones(2))\nouter()"
    lines = traceback_of(shell, code)
    assert [line for line in lines if "in forward(x)" in line] and [line for line in lines if "in outer()" in line]
    assert lines[-1].startswith("SyftError: This tensor is local")


def test_causes_inside_the_library_are_hidden_and_those_of_the_user_are_shown(shell):
    code = (
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise sy.exceptions.SyftError('the text') from error"
    )
    lines = traceback_of(shell, code)
    assert any("ZeroDivisionError" in line for line in lines) and lines[-1] == "SyftError: the text"
    shell.user_ns["fails"] = fails_inside
    lines = traceback_of(shell, "fails()")
    assert not any(line.startswith("KeyError") for line in lines) and lines[-1] == "SyftError: the text"


def fails_inside():
    try:
        sy.codes.__dict__["__nothing__"].anything
    except KeyError as error:
        error.__traceback__ = None  # as if only frames of the library were in it
        raise SyftError("the text") from error


def test_notes_come_before_the_text_and_the_error_is_left_as_it_was(shell):
    error = SyftError("the text")
    error.add_note("a note")
    shell.user_ns["error"] = error
    lines = traceback_of(shell, "raise error")
    assert lines[-2:] == ["a note", "SyftError: the text"]
    assert error.__notes__ == ["a note"] and error.__traceback__ is not None
