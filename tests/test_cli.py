"""The command line, and programs written for PyTorch running under `rushlight run`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rushlight
from rushlight.cli import COMMANDS, main
from tests.waiting import PATIENCE

ROOT = str(Path(rushlight.__file__).parents[1])
COMMAND = [sys.executable, "-m", "rushlight"]


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, in which `rushlight` is found from any folder."""
    path = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **variables}


@pytest.fixture
def script(tmp_path):
    """Writes a file into the test's folder."""

    def write(text: str, name: str = "script.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def run(tmp_path):
    """Runs `rushlight run` in the test's folder and checks the exit status."""

    def execute(*arguments: str, status: int = 0, **variables: str) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [*COMMAND, "run", *map(str, arguments)],
            cwd=tmp_path,
            env=environment(**variables),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == status, done.stderr
        return done

    return execute


class TestCommandLine:
    def test_version(self, capsys):
        assert main(["--version"]) == 0
        assert capsys.readouterr().out == f"rushlight {rushlight.__version__}\n"

    def test_help_lists_every_command(self, capsys):
        assert main(["--help"]) == 0
        text = capsys.readouterr().out
        assert all(f"\n  {name} " in text for name in COMMANDS)

    @pytest.mark.parametrize("name", COMMANDS)
    def test_help_of_a_command(self, name, capsys):
        assert main([name, "--help"]) == 0
        assert capsys.readouterr().out.startswith(f"usage: rushlight {name} ")

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ([], "which command"),
            (["dance"], "unknown command dance"),
            (["shwo"], "unknown command shwo, did you mean show?"),
            (["--dance"], "unknown flag --dance"),
            (["run"], "which file"),
            (["run", "-m"], "which module"),
            (["run", "--fast", "x.py"], "unknown flag --fast"),
        ],
    )
    def test_misuse_is_one_line_and_status_2(self, arguments, expected, capsys):
        assert main(arguments) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("rushlight: ")
        assert expected in output.err
        assert output.err.count("\n") == 1

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["nothing.py"], "cannot read nothing.py: No such file or directory"),
            (["."], "cannot read .: Is a directory"),
            (["-m", "nothing"], "no module nothing"),
            (["-m", "nothing.within"], "no module nothing.within"),
        ],
    )
    def test_missing_program_is_one_line_and_status_2(self, run, arguments, expected):
        output = run(*arguments, status=2)
        assert output.stdout == ""
        assert expected in output.stderr
        assert output.stderr.count("\n") == 1

    @pytest.mark.parametrize("unbuffered", ["", "1"])
    def test_closed_stdout_is_quiet(self, script, unbuffered):
        path = script("for line in range(200_000): print(line)")
        process = subprocess.Popen(
            [*COMMAND, "run", path],
            env=environment(PYTHONUNBUFFERED=unbuffered),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        with process.stderr:
            assert process.stderr.read() == b""
        assert process.wait(timeout=PATIENCE) == 141

    def test_another_broken_pipe_is_a_failure(self, script, run):
        script("raise BrokenPipeError('a socket')")
        assert "BrokenPipeError: a socket" in run("script.py", status=1).stderr

    def test_interrupt_is_quiet(self, script):
        path = script("import time; print('ready', flush=True); time.sleep(60)")
        process = subprocess.Popen(
            [*COMMAND, "run", path],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, output, errors) == (130, b"", b"")


class TestAsUnderPython:
    """What a program sees and leaves behind is what it would be under `python`."""

    REPORT = """
        '''A program.'''
        import sys
        print(__name__, __file__, __package__, __doc__, __cached__, __builtins__, sys.argv)
        print(sys.path[0], type(__loader__), getattr(__spec__, "name", None))
        print(sys.modules["__main__"].__dict__ is globals())
    """

    @pytest.mark.parametrize(
        "arguments",
        [["script.py", "a", "--help"], ["-m", "package", "-m", "x"], ["-m", "package.part"]],
    )
    def test_namespace_arguments_and_path(self, script, run, tmp_path, arguments):
        for name in ("script.py", "package/__main__.py", "package/part.py"):
            script(self.REPORT, name)
        script("", "package/__init__.py")
        python = [sys.executable, *arguments]
        expected = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert run(*arguments).stdout == expected.stdout

    def test_script_in_another_folder_imports_its_neighbour(self, script, run):
        script("VALUE = 7", "folder/neighbour.py")
        script("from neighbour import VALUE; print(VALUE)", "folder/script.py")
        assert run("folder/script.py").stdout == "7\n"

    def test_classes_of_main_are_pickled(self, script, run):
        script("""
            import atexit, pickle
            class Point: pass
            def later(): print(type(pickle.loads(pickle.dumps(Point()))).__name__)
            atexit.register(later)
            if __name__ == "__main__":
                later()
        """)
        assert run("script.py").stdout == "Point\nPoint\n"

    def test_traceback_starts_in_the_script(self, script, run):
        path = script("""
            def fail():
                raise ValueError("on purpose")
            fail()
        """)
        lines = run("script.py", status=1).stderr.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[1] == f'  File "{path}", line 4, in <module>'
        assert lines[-1] == "ValueError: on purpose"
        assert not any("rushlight" in line for line in lines)

    def test_syntax_error_shows_only_the_script(self, script, run):
        path = script("x = = 1")
        lines = run("script.py", status=1).stderr.splitlines()
        assert lines[0] == f'  File "{path}", line 1'
        assert lines[-1].startswith("SyntaxError")

    @pytest.mark.parametrize(
        ("value", "status", "error"),
        [("3", 3, ""), ("'why not'", 1, "why not\n")],
    )
    def test_exit_status(self, script, run, value, status, error):
        script(f"import sys; sys.exit({value})")
        assert run("script.py", status=status).stderr == error

    def test_exception_hook_of_the_script_is_called(self, script, run):
        script("""
            import sys
            sys.excepthook = lambda kind, error, traceback: print("hook", error)
            raise ValueError("on purpose")
        """)
        output = run("script.py", status=1)
        assert (output.stdout, output.stderr) == ("hook on purpose\n", "")

    def test_failure_while_a_package_is_imported(self, script, run):
        script("import module_that_is_missing", "package/__init__.py")
        script("", "package/part.py")
        error = run("-m", "package.part", status=1).stderr
        assert "No module named 'module_that_is_missing'" in error


class TestServedNames:
    """`import torch` and its relatives."""

    def test_torch_is_rushlight(self, script, run):
        script("raise ImportError('the installed one')", "torch/__init__.py")
        script("""
            import importlib.util
            assert importlib.util.find_spec("torch").origin
            import sys
            import torch
            import rushlight
            import torch.autograd as direct
            from torch import autograd
            from torch.autograd import Function
            assert torch.Tensor is rushlight.Tensor
            assert autograd is direct is torch.autograd is rushlight.autograd
            assert Function is rushlight.autograd.Function
            assert sys.modules["torch"] is torch and sys.modules["torch.autograd"] is autograd
            assert rushlight.__name__ == rushlight.__spec__.name == "rushlight"
            assert importlib.util.find_spec("torch").origin == rushlight.__file__
            assert importlib.util.find_spec("torch.nothing") is None
            assert not hasattr(torch, "nothing") and not hasattr(torch.autograd, "nothing")
        """)
        run("script.py")

    def test_missing_names_say_which_and_where(self, script, run):
        cases = {
            "torch.nothing": "AttributeError: torch.nothing",
            "torch.autograd.nothing": "AttributeError: torch.autograd.nothing",
            "torch.nn.nothing": "AttributeError: torch.nn.nothing",
            "torch.utils.nothing": "AttributeError: torch.utils.nothing",
            "from torch import nothing": "ImportError: torch.nothing",
            "from torch.autograd import nothing": "ImportError: torch.autograd.nothing",
            "import torch.nothing": "ModuleNotFoundError: torch.nothing",
            "import torch.nothing.more": "ModuleNotFoundError: torch.nothing",
            "from torch.nothing import x": "ModuleNotFoundError: torch.nothing",
            "importlib.import_module('torch.nothing')": "ModuleNotFoundError: torch.nothing",
        }
        lines = ["import importlib, torch"]
        for statement in cases:
            lines += ["try:", f"    {statement}", "except Exception as e:"]
            lines += ["    print(f'{type(e).__name__}: {e}')"]
        path = script("\n".join(lines))
        expected = [
            f"{text} is not in Rushlight {rushlight.__version__} ({path}:{3 + 4 * place})"
            for place, text in enumerate(cases.values())
        ]
        assert run("script.py").stdout.splitlines() == expected

    def test_a_misspelt_name_is_suggested(self, script, run):
        script("import torch; torch.Tensr")
        assert "Did you mean: 'Tensor'" in run("script.py", status=1).stderr

    def test_modules_by_their_full_names(self, script, run):
        script("""
            from torch.distributions.categorical import Categorical
            from torch.distributions.normal import Normal
            from torch.serialization import load
            from torch.types import Device, Number
            from torch.utils._pytree import tree_map
            from torch.utils.checkpoint import checkpoint
            from torch.utils.data.dataloader import DataLoader
            from torch.utils.hooks import RemovableHandle
            from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader, make_dataset
            from torchvision.datasets.mnist import MNIST
            from torchvision.datasets.vision import VisionDataset
            import torch
            assert torch.load is load
            assert torch.utils.checkpoint.checkpoint is checkpoint
            assert torch.distributions.Normal is Normal
        """)
        run("script.py")

    def test_processes_by_spawn(self, script, run):
        script("""
            import torch
            import torch.multiprocessing as mp

            def work(index, answers):
                answers.put(torch.full((2,), float(index)))

            def fail(index):
                raise SystemExit(3)

            if __name__ == "__main__":
                answers = mp.get_context("spawn").SimpleQueue()
                mp.spawn(work, args=(answers,), nprocs=2)
                print(sorted(answers.get().tolist() for _ in range(2)))
                try:
                    mp.spawn(fail)
                except Exception as error:
                    print(error)
        """)
        expected = "[[0.0, 0.0], [1.0, 1.0]]\nProcess 0 terminated with exit code 3\n"
        assert run("script.py").stdout == expected

    def test_what_a_script_assigns_is_seen_by_rushlight(self, script, run):
        script("""
            import rushlight, torch
            torch.extra = 1
            assert rushlight.extra == 1
        """)
        run("script.py")

    def test_nothing_is_served_without_run(self):
        probe = "import sys, rushlight.cli; print([m for m in sys.modules if m[:5] == 'torch'])"
        command = [sys.executable, "-c", probe]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True)
        assert done.stdout == "[]\n"


class TestChildren:
    """Processes that a program starts see the same names."""

    def test_subprocess(self, script, run):
        script("import torch, sys; print(torch.__name__, sys.path[0])", "folder/child.py")
        script("""
            import subprocess, sys
            subprocess.run([sys.executable, "folder/child.py"], check=True)
            grandchild = "import subprocess, sys; subprocess.run([sys.executable] + sys.argv[1:])"
            subprocess.run([sys.executable, "-c", grandchild, "folder/child.py"], check=True)
        """)
        lines = run("script.py").stdout.splitlines()
        assert len(lines) == 2
        assert all(line.startswith("rushlight ") and line.endswith("folder") for line in lines)

    @pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
    @pytest.mark.skipif(os.name == "nt", reason="fork is not available")
    def test_multiprocessing(self, script, run, method):
        script(f"""
            import multiprocessing
            import torch
            def work(x):
                return x * 2, torch.Tensor.__module__.partition(".")[0]
            if __name__ == "__main__":
                with multiprocessing.get_context({method!r}).Pool(1) as pool:
                    print(pool.map(work, [1, 2]))
        """)
        # Python warns of fork in a process with threads; whether there are any is not the point.
        output = run("script.py", PYTHONWARNINGS="ignore").stdout
        assert output == "[(2, 'rushlight'), (4, 'rushlight')]\n"

    def test_a_module_run_by_name_is_found_again_by_spawn(self, script, run):
        script("", "package/__init__.py")
        script(
            """
            import multiprocessing
            import torch
            def work(x):
                return __name__, __spec__.name
            if __name__ == "__main__":
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(pool.map(work, [1]))
            """,
            "package/part.py",
        )
        assert run("-m", "package.part").stdout == "[('__mp_main__', 'package.part')]\n"

    def test_a_child_without_torch_does_not_import_rushlight(self, script, run):
        script("""
            import subprocess, sys
            probe = "import sys; print('rushlight' in sys.modules, 'numpy' in sys.modules)"
            subprocess.run([sys.executable, "-c", probe], check=True)
        """)
        assert run("script.py").stdout == "False False\n"

    def test_the_hidden_sitecustomize_is_executed(self, script, run, tmp_path):
        script("import builtins; builtins.hidden = __file__", "site/sitecustomize.py")
        script("""
            import subprocess, sys
            probe = "import torch, sitecustomize; print(hidden, sitecustomize.__file__ == hidden)"
            subprocess.run([sys.executable, "-c", probe], check=True)
        """)
        path = os.pathsep.join([str(tmp_path / "site"), ROOT])
        hidden = tmp_path / "site" / "sitecustomize.py"
        assert run("script.py", PYTHONPATH=path).stdout == f"{hidden} True\n"

    def test_another_interpreter_is_left_alone(self, script, run):
        script("""
            import os, subprocess, sys
            prefix, names = os.environ["RUSHLIGHT_SERVES"].split(os.pathsep, 1)
            assert prefix == sys.prefix
            os.environ["RUSHLIGHT_SERVES"] = os.pathsep.join(["elsewhere", names])
            probe = "import sys; print('Tripwire' in [type(f).__name__ for f in sys.meta_path])"
            subprocess.run([sys.executable, "-c", probe], check=True)
        """)
        assert run("script.py").stdout == "False\n"


def test_a_program_that_asks_for_the_version_is_answered_as_by_pytorch(script, run):
    script("""
        import torch
        assert int(torch.__version__.split(".")[0]) >= 2 and torch.version.__version__ >= "2"
        torch.no_such
    """)
    done = run("script.py", status=1)
    assert "torch.no_such is not in Rushlight 0." in done.stderr


def test_caches_and_files_of_a_served_program_have_the_own_version(script, run):
    script("""
        import torch
        from rushlight.onnx import proto
        from rushlight.runtime import cache, host
        print(*{module.RELEASE for module in (cache, host, proto)})
    """)
    assert run("script.py").stdout == f"{rushlight.__version__}\n"
