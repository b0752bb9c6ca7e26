# See soak-0.sh.
scif-soak conduct
