"""A Report and its Trace as one HTML page, complete in itself: charts are SVG made here, so that
the page is small, opens at once, and shows without a network.
"""
