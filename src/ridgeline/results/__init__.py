"""What a run comes to: one row a layer, the report that holds them, and the table of columns.

Nothing here knows a machine or a program; `machine.tabulate` fills it and `render` prints it.
"""
