from __future__ import annotations

import logging

from regauge.pytest_output import loggers_may_appear


def test_a_logger_may_come_while_somebody_goes_through_those_there_are():
    logging.getLogger("tests.first")
    with loggers_may_appear():
        for number, _ in enumerate(logging.root.manager.loggerDict.values()):
            logging.getLogger(f"tests.second.{number}")
        assert number > 0


def test_loggers_of_the_block_are_there_after_it_and_those_before_it_in_it():
    before = logging.getLogger("tests.before")
    with loggers_may_appear():
        assert logging.getLogger("tests.before") is before
        new = logging.getLogger("tests.before.new")
    assert logging.getLogger("tests.before.new") is new
    assert new.parent is before
    assert type(logging.root.manager.loggerDict) is dict
