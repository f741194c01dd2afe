from deepeval import metrics
from deepeval.dataset import EvaluationDataset
from deepeval.test_case import LLMTestCase

dataset = EvaluationDataset()
dataset.add_goldens_from_csv_file(file_path="data/goldens.csv")
other = EvaluationDataset()
other.add_goldens_from_json_file("data/nowhere.json")
third = EvaluationDataset()
third.add_goldens_from_json_file(path_of("x"))


def test_bot(golden):
    case = LLMTestCase(input=golden.input, actual_output="x")
    metrics.ToolCorrectnessMetric(threshold=0.5).measure(case)
    metrics.GEval(threshold=limit(), name="Tone", criteria="It is polite.").measure(case)
