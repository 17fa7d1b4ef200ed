"""Ctrl-C and SIGTERM wait for the end of a step, and then do what they always did."""

import os
import signal
import threading

import pytest

from headway.train.signals import DeferredSignals


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def test_outside_a_step_a_signal_acts_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), DeferredSignals():
        send(signal.SIGINT)


def test_inside_a_step_it_waits_for_the_end() -> None:
    done = []

    def step() -> None:
        send(signal.SIGINT)
        done.append("all of it")

    with pytest.raises(KeyboardInterrupt), DeferredSignals() as signals, signals.defer():
        step()
    assert done


def test_sigterm_ends_the_program_with_its_code() -> None:
    with pytest.raises(SystemExit) as caught, DeferredSignals() as signals, signals.defer():
        send(signal.SIGTERM)
    assert caught.value.code == 143


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with DeferredSignals():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_handler_of_the_program_is_asked() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        with DeferredSignals() as signals:
            with signals.defer():
                send(signal.SIGTERM)
                assert received == []
            assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with DeferredSignals() as signals:
            with signals.defer():
                send(signal.SIGTERM)
            send(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_error_in_a_step_comes_through() -> None:
    with pytest.raises(ValueError, match=r"broken"), DeferredSignals() as signals, signals.defer():
        raise ValueError("broken")


def test_in_another_thread_nothing_is_touched() -> None:
    before = signal.getsignal(signal.SIGINT)
    inside: list[object] = []

    def work() -> None:
        with DeferredSignals() as signals, signals.defer():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before]
