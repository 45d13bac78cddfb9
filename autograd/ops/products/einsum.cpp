// Einstein summation: operands are contracted from left to right, each pair by one batched product,
// or by sums of products of elements where no two elements of the result share a row or a column.
#include <algorithm>

#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/fused_expression.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>

namespace hero {

namespace {

// A label is a letter; dimensions of "..." are numbered from the right, below all letters.
using Labels = std::vector<int>;

constexpr int kEllipsis = -100;

bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::string label_text(int label) {
  return label < 0 ? "of ..." : std::string(1, static_cast<char>(label));
}

// A tensor whose dimensions have names.
struct Labelled {
  Tensor tensor;
  Labels labels;

  int64_t size(int label) const { return tensor.shape()[at(label)]; }
  int at(int label) const {
    return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }
  void drop(int label) { labels.erase(labels.begin() + at(label)); }

  // The dimensions in this order; a missing one is of size 1.
  Tensor arranged(const Labels& order) const {
    Dims dims;
    for (int label : order) {
      if (has(labels, label)) dims.push_back(at(label));
    }
    Tensor result = permute(tensor, dims);
    for (size_t i = 0; i < order.size(); ++i) {
      if (!has(labels, order[i])) result = unsqueeze(result, static_cast<int64_t>(i));
    }
    return result;
  }
};

// One term of the equation. kEllipsis stands for "...".
Labels parse_term(const std::string& text, const std::string& equation) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == '.') {
      check(text.compare(i, 3, "...") == 0 && !has(labels, kEllipsis), "einsum: a stray '.' in '",
            equation, "'; write one \"...\" a term");
      labels.push_back(kEllipsis);
      i += 2;
      continue;
    }
    check((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), "einsum: unexpected '", c, "' in '",
          equation, "'");
    labels.push_back(c);
  }
  return labels;
}

// kEllipsis replaced by `count` numbered dimensions.
Labels spread(const Labels& labels, int count) {
  Labels result;
  for (int label : labels) {
    if (label != kEllipsis) result.push_back(label);
    for (int i = count; label == kEllipsis && i > 0; --i) result.push_back(-i);
  }
  return result;
}

struct Equation {
  std::vector<Labels> terms;
  Labels output;
};

// Without "->": the dimensions of "...", then every letter that appears once, in alphabetical
// order.
Labels implicit_output(const std::vector<Labels>& terms, int ellipsis) {
  Labels output = spread({kEllipsis}, ellipsis);
  for (int c = 'A'; c <= 'z'; ++c) {
    int64_t count = 0;
    for (const Labels& term : terms) count += std::count(term.begin(), term.end(), c);
    if (count == 1) output.push_back(c);
  }
  return output;
}

Equation parse(const std::string& equation, const std::vector<Tensor>& operands) {
  Equation result;
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  for (size_t begin = 0; begin <= left.size();) {
    const size_t end = std::min(left.find(',', begin), left.size());
    result.terms.push_back(parse_term(left.substr(begin, end - begin), equation));
    begin = end + 1;
  }
  check(result.terms.size() == operands.size(), "einsum: '", equation, "' has ",
        result.terms.size(), " terms for ", operands.size(), " operands");
  int ellipsis = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    Labels& term = result.terms[i];
    const bool open = has(term, kEllipsis);
    const int ndim = operands[i].ndim(), rest = ndim - static_cast<int>(term.size()) + open;
    check(open ? rest >= 0 : rest == 0, "einsum: operand ", i, " of shape ", operands[i].shape(),
          " does not have the dimensions that '", equation, "' names");
    term = spread(term, rest);
    ellipsis = std::max(ellipsis, open ? rest : 0);
  }
  if (arrow == std::string::npos) {
    result.output = implicit_output(result.terms, ellipsis);
    return result;
  }
  result.output = spread(parse_term(equation.substr(arrow + 2), equation), ellipsis);
  for (size_t i = 0; i < result.output.size(); ++i) {
    const int label = result.output[i];
    bool found = false;
    for (const Labels& term : result.terms) found = found || has(term, label);
    check(found, "einsum: index ", label_text(label), " of the output appears in no operand of '",
          equation, "'");
    check(std::count(result.output.begin(), result.output.end(), label) == 1, "einsum: index ",
          label_text(label), " appears twice in the output of '", equation, "'");
  }
  return result;
}

// A label that a term names twice stands for the diagonal.
Labelled diagonals(Tensor tensor, Labels labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = i + 1; j < labels.size(); ++j) {
      if (labels[i] != labels[j]) continue;
      const auto a = static_cast<int64_t>(i), b = static_cast<int64_t>(j);
      check(tensor.size(a) == tensor.size(b), "einsum: index ", label_text(labels[i]),
            " has the sizes ", tensor.size(a), " and ", tensor.size(b), " in one operand");
      tensor = diagonal(tensor, 0, a, b);
      const int label = labels[i];
      labels.erase(labels.begin() + b);
      labels.erase(labels.begin() + a);
      labels.push_back(label);
      return diagonals(tensor, labels);
    }
  }
  return {tensor, labels};
}

// Sums over the labels that neither `other` nor `kept` has.
Labelled summed(Labelled x, const Labels& other, const Labels& kept) {
  Dims dims;
  const Labels all = x.labels;
  for (int label : all) {
    if (has(other, label) || has(kept, label)) continue;
    dims.push_back(static_cast<int64_t>(std::find(all.begin(), all.end(), label) - all.begin()));
    x.drop(label);
  }
  if (!dims.empty()) x.tensor = sum(x.tensor, dims);
  return x;
}

// Shared labels of size 1 on one side are dropped there: the other side's size counts.
void drop_broadcast(Labelled& x, const Labelled& other) {
  const Labels all = x.labels;
  for (int label : all) {
    if (!has(other.labels, label)) continue;
    const int64_t mine = x.size(label), theirs = other.size(label);
    check(mine == theirs || mine == 1 || theirs == 1, "einsum: index ", label_text(label),
          " has the sizes ", mine, " and ", theirs, " in two operands");
    if (mine != 1 || theirs == 1) continue;
    x.tensor = squeeze(x.tensor, x.at(label));
    x.drop(label);
  }
}

Labels joined(std::initializer_list<Labels> lists) {
  Labels all;
  for (const Labels& labels : lists) all.insert(all.end(), labels.begin(), labels.end());
  return all;
}

// x's dimensions in this order, each group of labels made one dimension.
Tensor blocks(const Labelled& x, const Labels& a, const Labels& b, const Labels& c) {
  Shape shape;
  for (const Labels* group : {&a, &b, &c}) {
    int64_t size = 1;
    for (int label : *group) size *= x.size(label);
    shape.push_back(size);
  }
  return reshape(x.arranged(joined({a, b, c})), shape);
}

Labelled contract(Labelled a, Labelled b, const Labels& kept) {
  drop_broadcast(a, b);
  drop_broadcast(b, a);
  a = summed(a, b.labels, kept);
  b = summed(b, a.labels, kept);
  Labels batch, inner, left, right;
  for (int label : a.labels) {
    const bool shared = has(b.labels, label);
    (shared ? (has(kept, label) ? batch : inner) : left).push_back(label);
  }
  for (int label : b.labels) {
    if (!has(a.labels, label)) right.push_back(label);
  }
  const Labels order = joined({batch, left, right});
  // Nothing to sum: an ordinary product of broadcast operands.
  if (inner.empty()) return {a.arranged(order) * b.arranged(order), order};
  Shape shape;
  for (int label : order) shape.push_back(has(a.labels, label) ? a.size(label) : b.size(label));
  // Each element is one sum of its own.
  const DType dtype = a.tensor.dtype();
  if (left.empty() && right.empty() && !batch.empty() && dtype == b.tensor.dtype() &&
      is_floating(dtype) && !is_half(dtype) && !autocast_enabled()) {
    const Tensor sums =
        detail::sum_of_products(blocks(a, batch, inner, {}), blocks(b, batch, inner, {}), 2);
    return {reshape(sums, shape), order};
  }
  const Tensor product = matmul(blocks(a, batch, left, inner), blocks(b, batch, inner, right));
  return {reshape(product, shape), order};
}

// Whether there is more than one product, or a sum beside it.
bool takes_several_steps(const Equation& parsed) {
  if (parsed.terms.size() != 2) return parsed.terms.size() > 2;
  for (size_t i = 0; i < 2; ++i) {
    for (const int label : parsed.terms[i]) {
      if (!has(parsed.terms[1 - i], label) && !has(parsed.output, label)) return true;
    }
  }
  return false;
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  const detail::Named named("einsum");
  detail::check_defined("einsum", operands);
  check(!operands.empty(), "einsum: no operands for '", equation, "'");
  const Equation parsed = parse(equation, operands);
  const bool half = std::any_of(operands.begin(), operands.end(),
                                [](const Tensor& x) { return detail::is_half(x); });
  if (half && takes_several_steps(parsed)) {
    return detail::in_float32("einsum", AutocastRule::fallthrough, operands,
                              [=](const auto& in) { return einsum(equation, in); });
  }
  Labelled result = diagonals(operands[0], parsed.terms[0]);
  for (size_t i = 1; i < operands.size(); ++i) {
    // What is still needed after this pair.
    Labels kept = parsed.output;
    for (size_t j = i + 1; j < operands.size(); ++j) kept = joined({kept, parsed.terms[j]});
    result = contract(result, diagonals(operands[i], parsed.terms[i]), kept);
  }
  result = summed(result, {}, parsed.output);
  return result.arranged(parsed.output);
}

}  // namespace hero
