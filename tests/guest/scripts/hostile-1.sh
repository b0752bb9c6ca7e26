# The node without a driver: scif-hostile takes its place.

scif-hostile 1 5
