from deepeval import assert_test
from deepeval.dataset import EvaluationDataset
from deepeval.metrics import AnswerRelevancyMetric, GEval, BiasMetric
from deepeval.test_case import LLMTestCase, LLMTestCaseParams

LIMIT = 0.6
polite = GEval(name="Polite", evaluation_steps=["Read it", "Judge it"], evaluation_params=[LLMTestCaseParams.ACTUAL_OUTPUT, LLMTestCaseParams.INPUT], threshold=LIMIT, strict_mode=True)
unused = BiasMetric(threshold=0.3)
relevant = AnswerRelevancyMetric(threshold=0.7, model="gpt-4o", include_reason=False)
dataset = EvaluationDataset()
dataset.add_goldens_from_json_file(file_path="goldens.json")


def test_polite(golden):
    case = LLMTestCase(input=golden.input, actual_output="x", expected_output=golden.expected_output)
    assert_test(case, [polite])


def test_both(golden):
    assert_test(LLMTestCase(input="fixed", actual_output="out", retrieval_context=["a"]), [polite, relevant])
