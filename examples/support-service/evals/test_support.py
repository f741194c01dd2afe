from regauge import golden
from regauge.judges import equals

# The same cases three ways; recordings have the name of their eval.


@golden("support-function", dataset="support", target="function", judges=[equals()])
def test_function(result):
    result.check()


@golden("support-service", dataset="support", target="service", judges=[equals()])
def test_service(result):
    result.check()


@golden("support-program", dataset="support", target="program", judges=[equals()])
def test_program(result):
    result.check()
