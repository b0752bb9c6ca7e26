# A subscriber of notices sees node 1 (mad-loss-1.sh) lose its driver, come back, and go.

mad-test loss 1
