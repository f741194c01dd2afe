"""The refinement loop: finds what fails, proposes small revisions, proves each."""
