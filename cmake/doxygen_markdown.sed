# What Doxygen reads otherwise than a forge does.
# A link's text that goes over the end of a line ends its formatting.
/\[[A-Za-z][^]]*$/{
  N
  s/\n/ /
}
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
# An apostrophe in code is the end of a quotation for it, unless two marks stand on each side.
s/`([^`]*)`/\x01\1\x02/g
s/\x01([^\x01\x02']*'[^\x01\x02]*)\x02/``\1``/g
s/\x01|\x02/`/g
# It shows the marks of code in a link's text.
:code
s/\[([^]`]*)`([^]`]*)`([^]]*)\]\(/[\1\2\3](/
t code
# It does not find headings of pages, only pages.
s/\]\(([A-Za-z0-9_./]*\.md)#[^)]*\)/](\1)/g
s/\[([^]]*)\]\(#[^)]*\)/\1/g
# README.md is the main page; the index of docs has no other name there.
s/\[([^]]*)\]\(((docs|\.\.)\/)*README\.md\)/\1/g
# The interactive page is no part of the reference.
s/\[([^]]*)\]\(((docs|\.\.)\/)?site\/index\.html(#[a-z]+)?\)/\1/g
# Results and lists of the tests are no pages.
s/\[([^]]*)\]\((\.\.\/)*tests\/[A-Za-z0-9_.\/]*\.(md|tsv)\)/\1/g
# The licence is no page.
s/\[([^]]*)\]\(LICENSE\)/\1/g
# It finds figures by their folder's name, and has no page for a program.
s/\]\(\.\.\/figures\//](figures\//g
s/\[([^]]*)\]\([A-Za-z0-9_.\/]*\.(cpp|json)\)/\1/g
