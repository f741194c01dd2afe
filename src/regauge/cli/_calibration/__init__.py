"""Which judges gate, and what a calibration says to people."""
