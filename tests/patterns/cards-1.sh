# The serving card.

pattern-windows serve
