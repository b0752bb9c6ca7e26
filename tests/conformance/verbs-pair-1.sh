# B of the rows of RDMA verbs between host and card.

verbs-conformance pair b
