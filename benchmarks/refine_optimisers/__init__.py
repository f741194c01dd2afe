"""Other tools' optimisers of prompts, on the simulated tasks the refinement loop is tried on."""
