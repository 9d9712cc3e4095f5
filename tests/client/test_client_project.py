"""mindspec_client in a client team's project: its plugin starts the mock beside folders of the same names."""

from __future__ import annotations

import pytest
from client_project import Project, make_project
from test_house import TRACKED


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with tools, engine, handlers, generated and tests of its own, and both wheels installed."""
    return make_project(tmp_path_factory.mktemp("client"), TRACKED)


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (("pytest",), {}),
        (("python", "-m", "pytest"), {}),
        (("python", "-m", "pytest"), {"PYTHONPATH": "."}),
    ],
    ids=["pytest", "python -m pytest", "with the project on PYTHONPATH"],
)
def test_a_client_projects_tests_pass(project: Project, words: tuple[str, ...], variables: dict[str, str]) -> None:
    """All four: their own tools, valid requests answered by the mock, invalid ones refused as foretold, the corpus."""
    done = project.run(*words, "-p", "no:cacheprovider", **variables)
    assert (done.returncode, " 4 passed in " in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_profile_of_the_command_line_reaches_the_mock(project: Project) -> None:
    """Under the profile deepseek the mock refuses n 2 by that profile's rule."""
    project.write(
        {
            "tests/profile_check.py": """
def test_refused(mindspec_mock):
    import json, urllib.error, urllib.request
    body = json.dumps({"model": mindspec_mock.model, "prompt": "x", "n": 2}).encode()
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{mindspec_mock.base_url}/completions", body, kind)
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        assert json.load(error)["code"] == "deepseek-excludes-n"
    else:
        raise AssertionError("was answered")
"""
        }
    )
    done = project.run("pytest", "tests/profile_check.py", "--mindspec-profile", "deepseek", "-p", "no:cacheprovider")
    assert (done.returncode, " 1 passed in " in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_script_of_the_ini_is_what_the_mock_answers_by(project: Project) -> None:
    """A file from the project's root, named in the ini; the mock, whose folder is another, finds it."""
    project.write(
        {
            "answers.yaml": "rules:\n- reply: {content: as the script says}\n",
            "tests/script_check.py": """
def test_answered(mindspec_mock):
    import json, urllib.request
    chat = {"model": mindspec_mock.model, "messages": [{"role": "user", "content": "x"}]}
    kind = {"Content-Type": "application/json"}
    body = json.dumps(chat).encode()
    request = urllib.request.Request(f"{mindspec_mock.base_url}/chat/completions", body, kind)
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["choices"][0]["message"]["content"] == "as the script says"
""",
        }
    )
    options = ("-p", "no:cacheprovider", "-o", "mindspec_script=answers.yaml", "-o", "mindspec_options=")
    done = project.run("pytest", "tests/script_check.py", *options)
    assert (done.returncode, " 1 passed in " in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_server_that_runs_is_used_instead_of_a_mock(project: Project) -> None:
    """The variable names it; nothing is started, so a command that is not there does not matter."""
    check = "def test_url(mindspec_mock):\n    assert mindspec_mock.base_url == 'http://127.0.0.1:9/v1'\n"
    project.write({"tests/url_check.py": check})
    words = ("tests/url_check.py", "-p", "no:cacheprovider", "-o", "mindspec_command=no-such-mindspec")
    done = project.run("pytest", *words, MINDSPEC_URL="http://127.0.0.1:9")
    assert (done.returncode, " 1 passed in " in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "last"),
    [
        ((), "2 passed, 2 errors"),
        (("-o", "mindspec_missing=skip"), "2 passed, 2 skipped"),
        (("-o", "mindspec_missing=perhaps"), "mindspec_missing is 'perhaps'; it must be fail or skip"),
    ],
)
def test_without_a_mindspec_the_ini_decides(project: Project, options: tuple[str, ...], last: str) -> None:
    """A command that is not there: failures by default, skips where asked for, and the reason is said."""
    missing = ("-o", "mindspec_command=no-such-mindspec")
    done = project.run("pytest", "-rs", "-p", "no:cacheprovider", *missing, *options)
    assert last in done.stdout, done.stdout + done.stderr
    assert "perhaps" in last or "no-such-mindspec is no program; correct mindspec_command" in done.stdout


def test_a_mock_that_does_not_start_shows_its_last_lines(project: Project) -> None:
    """A wrong option of the mock is seen in the failure."""
    done = project.run("pytest", "-p", "no:cacheprovider", "-o", "mindspec_options=--no-such-option")
    assert "ended before it was ready" in done.stdout
    assert "unrecognized arguments: --no-such-option" in done.stdout
