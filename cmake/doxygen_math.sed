# The pages write formulas as $x$ and $$x$$, which may span lines; Doxygen wants \f$x\f$ and \f[x\f].
:join
/^\$\$/{
  /\$\$.*\$\$/!{
    N
    b join
  }
}
s/\$\$([^$]+)\$\$/\\f[\1\\f]/g
s/\$([^$]+)\$/\\f$\1\\f$/g
