"""headway serve, as a program: what it says, how it stops, several processes."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.cli.app import main

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]


@contextmanager
def program(*arguments: str, log: Path, lazy: bool = True) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """The server as a process, and its address once it answers."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "headway", "serve", "--port", "0", "--device", "cpu", "--threads", "1", *arguments]
    command += ["--lazy"] if lazy else []
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, env=environment, stderr=stderr, stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            found = re.search(r"http://[\d.]+:\d+", log.read_text())
            try:
                if found and httpx.get(f"{found[0]}/health", timeout=5).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        yield process, found[0]
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


BODY = {"q": "The dog sees a red house.", "source": "en", "target": "qtx"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_stops_as_told(translator_dir: Path, tmp_path: Path, number: int) -> None:
    log = tmp_path / "log"
    lazy = number == signal.SIGTERM
    with program("--model", str(translator_dir), log=log, lazy=lazy) as (process, url):
        if not lazy:
            until_told(log, "loaded model")
        assert httpx.post(f"{url}/translate", json=BODY, timeout=60).json()["translatedText"]
        process.send_signal(number)
        assert process.wait(30) == 0, log.read_text()
    timed = log.read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} ", line) for line in timed)
    lines = [line.partition(" ")[2] for line in timed]
    assert lines[0] == f"serving {url} (Ctrl-C ends)"
    assert lines[-1] == "stopped"
    (told,) = [line for line in lines if line.startswith("POST /translate")]
    assert re.fullmatch(r"POST /translate status=200 ms=[\d.]+ client=127.0.0.1 texts=1 characters=25", told)


def test_it_stops_well_when_clients_have_just_gone(translator_dir: Path, sentences: list[str], tmp_path: Path) -> None:
    """What they wanted is in work: a thread that computes may not be torn from the process."""
    log = tmp_path / "log"
    with program("--model", str(translator_dir), log=log) as (process, url):
        httpx.post(f"{url}/translate", json=BODY, timeout=60)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/translate", json={**BODY, "q": sentences * 8}, timeout=0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()


def test_several_processes_share_the_port(translator_dir: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with program("--model", str(translator_dir), "--workers", "2", "--log-format", "json", log=log) as (process, url):
        for _ in range(6):
            assert httpx.post(f"{url}/translate", json=BODY, timeout=120).status_code == 200
        counted = httpx.get(f"{url}/metrics", timeout=30).text
        assert re.search(r'headway_requests_total\{endpoint="/translate",method="POST",status="200"\} 6.0', counted)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    assert log.read_text().count('"message": "POST /translate"') == 6


def test_open_doors_are_warned_of(translator_dir: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("anna annas-key\n")
    log = tmp_path / "log"
    with program("--model", str(translator_dir), "--host", "0.0.0.0", log=log):
        pass
    warnings = [line for line in log.read_text().splitlines() if "warning: " in line]
    assert len(warnings) == 2
    assert "--host 0.0.0.0 without --api-keys: everybody who can reach this machine can use the server" in warnings[0]
    assert "/metrics is open to everybody. Give it --metrics-port or --metrics-keys." in warnings[1]
    closed = ["--host", "0.0.0.0", "--api-keys", str(keys), "--metrics-port", "0", "--url-prefix", "/de"]
    with program("--model", str(translator_dir), *closed, log=log) as (process, url):
        assert "warning" not in log.read_text()
        metrics = re.findall(r"http://127.0.0.1:\d+/metrics", log.read_text())[0]
        assert f"serving {url}/de, {metrics} (Ctrl-C ends)" in log.read_text()
        body = {**BODY, "api_key": "annas-key"}
        assert httpx.post(f"{url}/de/translate", json=body, timeout=60).status_code == 200
        assert 'headway_client_requests_total{client="anna",status="200"} 1.0' in httpx.get(metrics, timeout=30).text
        keys.write_text("anna annas-key requests=none\n")
        process.send_signal(signal.SIGHUP)  # it does not end, and says what is wrong
        until_told(log, "keys, line 1: after the name and the key only requests=NUMBER")
        keys.write_text("ben bens-key\n")
        process.send_signal(signal.SIGHUP)
        until_told(log, "keys read again")
        assert httpx.post(f"{url}/translate", json=body, timeout=60).status_code == 403


def until_told(log: Path, text: str) -> None:
    end = time.monotonic() + 30
    while text not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)


def test_limits_of_several_processes(translator_dir: Path, tmp_path: Path) -> None:
    """Each has its share, since none knows what the others have done. Metrics are of all."""
    log = tmp_path / "log"
    options = ["--workers", "2", "--request-rate", "4", "--metrics-port", "0"]
    with program("--model", str(translator_dir), *options, log=log) as (_, url):
        metrics = re.findall(r"http://127.0.0.1:\d+/metrics", log.read_text())[0]
        with httpx.Client(timeout=60) as one_connection:  # to one process
            statuses = [one_connection.post(f"{url}/translate", json=BODY).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        counted = httpx.get(metrics, timeout=30).text
        assert 'headway_client_requests_total{client="-",status="429"} 1.0' in counted


def test_wrong_usage(translator_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    model = ["serve", "--model", str(translator_dir)]
    assert main([*model, "--memory", "much"]) == 2
    assert "'much' is not a size. Write 500M or 4G." in capsys.readouterr().err
    assert main(["serve", "--model", str(tmp_path / "nothing")]) == 1
    assert "there is no model directory" in capsys.readouterr().err
    for more in ([], ["--workers", "2"]):
        assert main(["serve", "--study", str(tmp_path), *more]) == 1
        assert f"--study {tmp_path}: results.json cannot be read: No such file" in capsys.readouterr().err
    assert main([*model, "--api-keys", str(tmp_path / "nothing")]) == 1
    assert "cannot be read: No such file" in capsys.readouterr().err
    for wrong, why in [
        (["--trusted-proxy", "nginx"], "--trusted-proxy nginx is not an address"),
        (["--allowed-host", "a b"], "--allowed-host a b is not a host name"),
        (["--url-prefix", "a b"], "--url-prefix a b is not a path"),
        (["--metrics-keys", str(tmp_path / "nothing")], "--metrics-keys"),
    ]:
        assert main([*model, *wrong]) == 1
        assert why in capsys.readouterr().err
        assert main([*model, *wrong, "--workers", "2"]) == 1
        assert why in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([*model, "--port", str(port)]) == 1
    assert (
        f"cannot listen on 127.0.0.1:{port}: Address already in use. Choose another --port." in capsys.readouterr().err
    )
    for host in ("not.a.host.invalid", "192.0.2.1"):
        assert main([*model, "--host", host]) == 1
        told = capsys.readouterr().err
        assert f"{host} is not an address of this machine: " in told
        assert "Choose another --host: " in told
        assert "--port" not in told


def test_installed_models_are_served(
    translator_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    from headway.cli.verbs.serve import model_directories
    from headway.storage import registry

    monkeypatch.setattr(registry, "BUNDLED_MODELS", tmp_path / "bundled")
    monkeypatch.setenv("HEADWAY_MODELS", str(tmp_path))
    assert main(["serve"]) == 1
    assert "no models installed. Give a model directory with --model" in capsys.readouterr().err
    (tmp_path / "mine").symlink_to(translator_dir)
    assert (
        model_directories(())
        == model_directories(("mine",))
        == model_directories(("en-qtx",))
        == (str(tmp_path / "mine"),)
    )
    assert model_directories((str(translator_dir),)) == (str(translator_dir),)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing of the server had been imported."""
    import headway.serve

    monkeypatch.setattr(headway, "serve", headway.serve)  # put back afterwards
    for name in [name for name in sys.modules if name.startswith("headway.serve")]:
        monkeypatch.delitem(sys.modules, name)


def test_without_the_packages_it_says_what_to_type(
    translator_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    forget(monkeypatch)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "--model", str(translator_dir)]) == 1
    message = "uvicorn, which the server needs, is not installed. Run: pip install 'headway[serve]'"
    assert message in capsys.readouterr().err


def test_a_broken_installation_is_not_called_a_missing_package(
    translator_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    forget(monkeypatch)
    monkeypatch.setitem(sys.modules, "headway.serve.api_keys", None)
    assert main(["serve", "--model", str(translator_dir)]) == 1
    assert "internal error: ModuleNotFoundError" in capsys.readouterr().err


def test_a_server_that_cannot_start_fails(
    translator_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail(*arguments: Any) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(import_module("headway.serve.server"), "serve", fail)
    assert main(["serve", "--model", str(translator_dir)]) == 1
    assert "the server could not be started" in capsys.readouterr().err


def test_sizes(check_command: Callable[[list[str]], None]) -> None:
    from headway.cli.verbs.serve import ByteSize

    sizes = {"500M": 500 * 2**20, "4G": 4 * 2**30, "1.5GB": 3 * 2**29, "2 GiB": 2**31, "1000": 1000}
    assert {text: ByteSize().convert(text, None, None) for text in sizes} == sizes
    check_command(["headway", "serve", "--model", "m", "--memory", "4G", "--cors", "*"])


def test_a_worker_that_cannot_begin_says_why(
    translator_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The file of keys may have been damaged since the server began: a line in the log, and no traceback."""
    verb, server, settings = map(
        import_module, ("headway.cli.verbs.serve", "headway.serve.server", "headway.serve.settings")
    )
    keys = tmp_path / "keys"
    keys.write_text("anna sha256:12\n")
    made = settings.ServerSettings(models=(str(translator_dir),), api_keys=str(keys))
    monkeypatch.setenv(server.SETTINGS_VARIABLE, made.to_json())
    monkeypatch.setenv(verb.LOG_SETTINGS_VARIABLE, "0 text never")
    for name in ("verbosity", "log_format", "color", "timestamps"):
        monkeypatch.setattr(verb.settings, name, getattr(verb.settings, name))
    with pytest.raises(SystemExit):
        verb.create_worker_app()
    error = capsys.readouterr().err
    assert "line 1: after sha256: there must be 64 hexadecimal digits" in error and "Traceback" not in error
