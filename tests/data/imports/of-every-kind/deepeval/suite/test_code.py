from deepeval.metrics import ExactMatchMetric
from deepeval.test_case import LLMTestCase


def test_code():
    case = LLMTestCase(input=question(), actual_output="x")
    ExactMatchMetric().measure(case)
