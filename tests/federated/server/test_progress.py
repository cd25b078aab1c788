"""The progress bar of a run in a real notebook kernel."""

from __future__ import annotations

from tests.notebooks.kernel import run

STORY = """
# %%
import torch
import syft as sy

def train(**options):
    parts = [sy.BaseDataset(torch.randn(8, 2), torch.randn(8, 1)) for _ in range(3)]
    model, loss = torch.nn.Linear(2, 1), torch.nn.functional.mse_loss
    return sy.federated.run("fedavg", parts, 4, model=model, loss_fn=loss, **options)

train(evaluate=lambda model: {"<b>size": 0.5}).rounds

# %%
train(progress=False).rounds
"""


def test_a_notebook_shows_one_output_that_is_replaced_after_each_round(tmp_path):
    story = tmp_path / "story.py"
    story.write_text(STORY)
    shown, hidden = run(story, times=1)
    bar, result = shown  # no warnings, and no output for each round
    assert bar.output_type == "display_data" and result["data"]["text/plain"] == "4"
    text, html = bar["data"]["text/plain"], bar["data"]["text/html"]
    assert text.startswith("round 4/4  loss ") and text.endswith("B") and "3/3 clients" in text
    assert "<progress value='4' max='4'" in html and "&lt;b&gt;size 0.5" in html and "<b>size" not in html
    assert [output.output_type for output in hidden] == ["execute_result"]
