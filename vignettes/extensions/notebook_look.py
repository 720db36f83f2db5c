"""Run in each kernel that executes a page: pictures as SVG in one look, columns as tables."""


def _look():
    import pandas as pd
    from cycler import cycler
    from IPython import get_ipython

    from dpinfer import _style

    shell = get_ipython()
    drawings = shell.config.InlineBackend
    drawings.figure_formats = {"svg"}
    looks = [_style.series(position) for position in range(len(_style.COLOURS))]
    drawings.rc = {
        "axes.prop_cycle": cycler(color=_style.COLOURS)
        + cycler(linestyle=[look["linestyle"] for look in looks]),
        "axes.edgecolor": _style.INK,
        "axes.labelcolor": _style.INK,
        "axes.titlesize": "medium",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": _style.GRID,
        "figure.figsize": _style.SIZE,
        "figure.constrained_layout.use": True,
        "legend.edgecolor": _style.GRID,
        "legend.fontsize": 9,
        "text.color": _style.INK,
        "xtick.color": _style.INK,
        "ytick.color": _style.INK,
        "svg.hashsalt": "dpinfer",
    }
    formats = shell.display_formatter
    formats.formatters["text/html"].for_type(
        pd.Series, lambda column: column.to_frame().to_html(header=column.name is not None)
    )
    # of a cell that ends in a drawing, the drawing is enough
    for module, name in (
        ("axes._axes", "Axes"),
        ("legend", "Legend"),
        ("collections", "PathCollection"),
        ("lines", "Line2D"),
    ):
        formats.ipython_display_formatter.for_type_by_name(
            f"matplotlib.{module}", name, lambda artist: None
        )


_look()
del _look
