"""Makes reference cases of the operators beyond ops.h in ops_further/ with PyTorch 2.15.

    python make_ops_further.py ops_further

The form of the files is that of ops/README.md; the attribute meta = false says that the shape of a
result depends on values.
"""

import sys

import op_cases
from op_cases import images, options
from op_cases.order import matrices, order, running, sums, without_nan
from op_cases.places import dimensions, places, searches
from op_cases.special import bits, pairs, special

parts = [special, pairs, bits, dimensions, places, searches]
parts += [images.resampling, images.sampling, images.folds, images.volumes]
parts += [images.functions, images.places, images.decompositions]
parts += [order, running, without_nan, sums, matrices]
parts += [options.pools, options.statistics, options.bounds, options.matrices]
for part in parts:
    part()
op_cases.write(sys.argv[1])
print(len(op_cases.cases), "cases")
