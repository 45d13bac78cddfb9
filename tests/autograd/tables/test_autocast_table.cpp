// What Autocast does with each operation of the op table is what the page of operations says.
#include <fstream>
#include <set>

#include "autograd/tables/op_table.h"
#include "support/catch.h"

#include <hero/autograd/ops/autocast.h>

namespace hero::test {

namespace {

// The functions of each row of the table "Under Autocast", by the row's number, and their rules.
std::map<std::string, AutocastRule> rules_of_the_page() {
  std::ifstream page(HERO_GOLDEN_DIR "/../../docs/guides/operations.md");
  REQUIRE(page);
  const std::map<std::string, AutocastRule> first_cells = {
      {"the dtype of the `Autocast`", AutocastRule::lower_precision},
      {"float32", AutocastRule::float32},
      {"the widest dtype among them", AutocastRule::promote}};
  std::map<std::string, AutocastRule> rules;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## Under Autocast";
    if (!inside || !line.starts_with("| ")) continue;
    const size_t bar = line.find(" | ", 2);
    const auto rule = first_cells.find(line.substr(2, bar - 2));
    if (rule == first_cells.end()) continue;
    for (size_t at = line.find('`', bar); at != std::string::npos;) {
      const size_t end = line.find('`', at + 1);
      REQUIRE(rules.emplace(line.substr(at + 1, end - at - 1), rule->second).second);
      at = line.find('`', end + 1);
    }
  }
  REQUIRE(rules.size() > 90);
  return rules;
}

// The first output; undefined where the operation refuses the inputs.
Tensor output_of(const OpRow& row, const Tensors& inputs) {
  manual_seed(1);
  try {
    return row.call.run(inputs)[0].detach();
  } catch (const Error&) {
    return {};
  }
}

bool is_float32(const Tensor& x) { return x.defined() && x.dtype() == kFloat32; }

// What the row does under Autocast, seen from what comes out.
AutocastRule seen(const OpRow& row) {
  const Tensors floats = inputs_for(row, Layout::contiguous, {.dtype = kFloat32});
  const Tensors halves = inputs_for(row, Layout::contiguous, {.dtype = kBFloat16});
  Tensors mixed = halves;
  mixed[0] = floats[0];
  const Tensor plain = output_of(row, floats), plain_of_halves = output_of(row, halves),
               plain_of_both = output_of(row, mixed);
  const Autocast autocast;
  const Tensor out = output_of(row, floats);
  if (!out.defined()) return AutocastRule::fallthrough;
  if (out.dtype() != plain.dtype() || !allclose(out, plain, 0.0, 0.0, true))
    return AutocastRule::lower_precision;
  if (is_float32(output_of(row, halves)) && !is_float32(plain_of_halves))
    return AutocastRule::float32;
  if (!plain_of_both.defined() && is_float32(output_of(row, mixed))) return AutocastRule::promote;
  return AutocastRule::fallthrough;
}

// Rows of functions of the page that say nothing of them: they make more of their inputs first, or
// what they are given needs no product.
const std::set<std::string> kSayNothing = {"cholesky",
                                           "cholesky (upper)",
                                           "inv",
                                           "pinv (hermitian)",
                                           "slogdet",
                                           "solve",
                                           "solve (batches)",
                                           "solve (from the right)",
                                           "solve (vector)",
                                           "solve_triangular",
                                           "solve_triangular (lower, from the right)",
                                           "solve_triangular (ones)",
                                           "cholesky_ex",
                                           "cholesky_inverse",
                                           "logdet",
                                           "einsum ii->i",
                                           "einsum ij->ji",
                                           "einsum i,j->ji",
                                           "einsum ij,ij->ij",
                                           "einsum ii",
                                           "einsum ij->",
                                           "einsum iji->j",
                                           "instance_norm (running statistics)",
                                           "matrix_power (0)"};

Tensor unit_like(const Tensor& x) { return eye(x.size(0), x.dtype()) * x[0][0].detach(); }

// Functions of the page without a row of their own.
Rows further_rows() {
  const Domain share{0.2, 0.8};
  const Input matrix{{3, 3}, share}, pair{{3, 3}, share};
  const auto signs = [](const Tensor& x) { return ones_like(x); };
  return {
      {"cholesky", {matrix}, [](const Tensors& x) { return cholesky(unit_like(x[0])); }},
      {"inv", {matrix}, [](const Tensors& x) { return inv(unit_like(x[0])); }},
      {"slogdet", {matrix}, [](const Tensors& x) { return slogdet(unit_like(x[0])).logabsdet; }},
      {"solve", {matrix, pair}, [](const Tensors& x) { return solve(unit_like(x[0]), x[1]); }},
      {"solve_triangular",
       {matrix, pair},
       [](const Tensors& x) { return solve_triangular(unit_like(x[0]), x[1]); }},
      {"binary_cross_entropy",
       {pair, pair},
       [](const Tensors& x) { return binary_cross_entropy(x[0], x[1].detach()); }},
      {"binary_cross_entropy_with_logits",
       {pair, pair},
       [](const Tensors& x) { return binary_cross_entropy_with_logits(x[0], x[1]); }},
      {"conv_transpose1d",
       {{{2, 3, 5}}, {{3, 4, 2}}},
       [](const Tensors& x) { return conv_transpose1d(x[0], x[1]); }},
      {"cosine_embedding_loss",
       {pair, pair},
       [](const Tensors& x) { return cosine_embedding_loss(x[0], x[1], ones({3}, x[0].dtype())); }},
      {"gaussian_nll_loss",
       {pair, pair, pair},
       [](const Tensors& x) { return gaussian_nll_loss(x[0], x[1], x[2]); }},
      {"hinge_embedding_loss",
       {pair},
       [=](const Tensors& x) { return hinge_embedding_loss(x[0], signs(x[0])); }},
      {"margin_ranking_loss",
       {pair, pair},
       [=](const Tensors& x) { return margin_ranking_loss(x[0], x[1], signs(x[0])); }},
      {"multi_margin_loss",
       {pair},
       [](const Tensors& x) {
         return multi_margin_loss(x[0], tensor({0, 2, 1}));
       }},
      {"multilabel_soft_margin_loss",
       {pair, pair},
       [](const Tensors& x) { return multilabel_soft_margin_loss(x[0], x[1]); }},
      {"pairwise_distance",
       {pair, pair},
       [](const Tensors& x) { return pairwise_distance(x[0], x[1]); }},
      {"poisson_nll_loss",
       {pair, pair},
       [](const Tensors& x) { return poisson_nll_loss(x[0], x[1]); }},
      {"soft_margin_loss",
       {pair},
       [=](const Tensors& x) { return soft_margin_loss(x[0], signs(x[0])); }},
      {"triplet_margin_loss",
       {pair, pair, pair},
       [](const Tensors& x) { return triplet_margin_loss(x[0], x[1], x[2]); }},
  };
}

}  // namespace

TEST_CASE("Autocast does with every operation what the page of operations says") {
  const std::map<std::string, AutocastRule> page = rules_of_the_page();
  std::map<std::string, AutocastRule> met;
  const auto check_row = [&](const OpRow& row) {
    const std::string name = row.name.substr(0, row.name.find_first_of(" ("));
    const auto said = page.find(name);
    const AutocastRule expected = said == page.end() ? AutocastRule::fallthrough : said->second;
    if (expected == AutocastRule::promote && row.inputs.size() < 2) return;  // beside a number
    const AutocastRule rule = seen(row);
    static const char* const kNames[] = {"low", "float32", "widest", "promote"};
    INFO(row.name << " is " << kNames[static_cast<int>(rule)] << ", the page says "
                  << kNames[static_cast<int>(expected)]);
    CHECK(rule == expected);
    met[name] = rule;
  };
  for (const Rows& part :
       {unary_rows(), special_rows(), rare_rows(), whole_rows(), binary_rows(), reduction_rows(),
        shape_rows(), dimension_rows(), indexing_rows(), place_rows(), order_rows(), product_rows(),
        more_product_rows(), linalg_rows(), image_rows(), network_rows()}) {
    for (const OpRow& row : part) {
      // Those with a dtype convert by themselves, whatever the function does.
      if (kSayNothing.contains(row.name) || row.name.ends_with("(dtype)")) continue;
      check_row(row);
    }
  }
  for (const OpRow& row : further_rows()) check_row(row);
  for (const auto& [name, rule] : page) {
    INFO(name << " is on the page, but neither in the op table nor above");
    CHECK(met.contains(name));
  }
}

}  // namespace hero::test
