# What Doxygen reads otherwise than a forge does.
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
# It takes the number of a chapter in a title for that of a list.
1s/^# ([0-9]+[a-z]?)\. /# Chapter \1: /
# A link's text that goes over the end of a line ends its formatting.
/\[[A-Za-z][^]]*$/{
  N
  s/\n/ /
}
# It does not find headings of pages, only pages.
s/\]\(([A-Za-z0-9_./]*\.md)#[^)]*\)/](\1)/g
s/\[([^]]*)\]\(#[^)]*\)/\1/g
# README.md is the main page; the index of docs has no other name there.
s/\[([^]]*)\]\(((docs|\.\.)\/)*README\.md\)/\1/g
# The interactive page is no part of the reference.
s/\[([^]]*)\]\(((docs|\.\.)\/)?site\/index\.html(#[a-z]+)?\)/\1/g
# It finds figures by their folder's name, and has no page for a program.
s/\]\(\.\.\/figures\//](figures\//g
s/\[([^]]*)\]\([A-Za-z0-9_.\/]*\.(cpp|json)\)/\1/g
