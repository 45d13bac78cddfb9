"""Makes the further reference cases of operators in ops_more/ with PyTorch (2.15 made those here).

    python make_ops.py ops_more

The form of the files is that of ops/README.md. Cases have second derivatives where PyTorch has.
"""

import sys

import op_cases
from op_cases.math import binary, unary
from op_cases.nn import attention, losses, norms
from op_cases.shape import indexing, shapes
from op_cases.sums import products, reductions
from op_cases.windows import windows

parts = [unary, binary, reductions, products, losses, norms, windows, indexing, shapes, attention]
for part in parts:
    part()
op_cases.write(sys.argv[1])
print(len(op_cases.cases), "cases")
