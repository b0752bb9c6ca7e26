# Two nodes: a thousand connections and ten thousand windows, opened here.

scif-many 1
