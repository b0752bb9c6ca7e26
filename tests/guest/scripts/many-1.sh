# The other end of many connections.

scif-many serve
