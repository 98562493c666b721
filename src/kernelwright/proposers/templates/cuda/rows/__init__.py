"""Row programs: reductions along rows and over rows, pointwise steps around them, and scatters."""
