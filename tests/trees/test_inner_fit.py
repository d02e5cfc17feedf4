"""Ctrl-C in a fit that is part of a larger one."""

import signal

import pytest

from anytime.trees.clock import inner_fit


def swallowed():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return "usable"
    return "not interrupted"


def test_an_interrupt_that_the_inner_fit_swallows_comes_again_when_it_is_over():
    assert swallowed() == "usable"
    with pytest.raises(KeyboardInterrupt), inner_fit():
        assert swallowed() == "usable"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nothing_happens_without_one():
    with inner_fit():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_users_own_that_raises_nothing_interrupts_nothing():
    calls = []
    before = signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    try:
        with inner_fit():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls == [signal.SIGINT]
