// The examples of the API reference about tensors: each runs, and what its comments say is checked.
#include <span>

#include <support/catch.h>

#include <hero/autograd/autograd.h>

namespace {

using namespace hero;
using Values = std::vector<double>;

Values values(const Tensor& x) { return x.to_vector<double>(); }

TEST_CASE("example: tensor") {
  //! [tensor]
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}});              // float32 [2, 2]
  const Tensor w = tensor({0.5, -0.5}, {.requires_grad = true});  // a leaf
  const Tensor classes = tensor({3, 1, 2});                       // int64 [3]
  const Tensor exact = tensor(0.1, {.dtype = kFloat64});          // a number: no dimensions
  //! [tensor]
  CHECK(x.dtype() == kFloat32);
  CHECK((w.requires_grad() && w.is_leaf()));
  CHECK(classes.dtype() == kInt64);
  CHECK(exact.item() == 0.1);
  CHECK(exact.ndim() == 0);
}

TEST_CASE("example: from_blob") {
  //! [from_blob]
  std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  const Tensor x = from_blob(rows.data(), {2, 3});  // reads and writes `rows`
  const Tensor kept = x.clone();                    // has memory of its own
  rows[0] = 7;
  float* const first = x.data_ptr<float>();  // rows.data()
  //! [from_blob]
  CHECK(first == rows.data());
  CHECK(values(x) == Values{7, 2, 3, 4, 5, 6});
  CHECK(values(kept) == Values{1, 2, 3, 4, 5, 6});
}

TEST_CASE("example: from_blob of a span") {
  //! [from_blob_span]
  std::vector<double> rows = {1, 2, 3, 4, 5, 6};
  const Tensor x = from_blob(std::span(rows), {2, 3});  // float64, over `rows`
  const Tensor kept = tensor(std::span(rows));          // float32 [6], a copy
  //! [from_blob_span]
  CHECK(x.dtype() == kFloat64);
  CHECK(x.data_ptr<double>() == rows.data());
  CHECK(kept.dtype() == kFloat32);
  CHECK(values(kept) == rows);
}

TEST_CASE("example: accessor") {
  //! [accessor]
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}});
  const auto a = x.accessor<float, 2>();
  a[0][1] = a[1][0] + 2;  // x is {{1, 5}, {3, 4}}
  //! [accessor]
  CHECK(values(x) == Values{1, 5, 3, 4});
}

TEST_CASE("example: span") {
  //! [span]
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}});
  float sum = 0;
  for (const float value : x.span<const float>()) sum += value;  // 10
  //! [span]
  CHECK(sum == 10);
}

TEST_CASE("example: zeros") {
  //! [zeros]
  const Tensor x = zeros({2, 3});            // float32
  const Tensor counts = zeros({4}, kInt64);  // another dtype
  const Tensor mask = full({2}, true);       // bool, as the value is
  const Tensor same = ones_like(x);
  //! [zeros]
  CHECK(values(x) == Values(6));
  CHECK(counts.dtype() == kInt64);
  CHECK(mask.dtype() == kBool);
  CHECK(values(same) == Values(6, 1.0));
}

TEST_CASE("example: arange") {
  //! [arange]
  const Tensor indices = arange(4);           // 0 1 2 3, int64
  const Tensor odd = arange(1, 8, 2);         // 1 3 5 7
  const Tensor grid = linspace(0.0, 1.0, 5);  // 0 0.25 0.5 0.75 1
  //! [arange]
  CHECK(indices.dtype() == kInt64);
  CHECK(values(odd) == Values{1, 3, 5, 7});
  CHECK(values(grid) == Values{0, 0.25, 0.5, 0.75, 1});
}

TEST_CASE("example: randn") {
  //! [randn]
  manual_seed(7);
  const Tensor first = randn({2, 3});  // standard normal
  manual_seed(7);
  const Tensor again = randn({2, 3});  // the same bits, on every machine
  //! [randn]
  CHECK(equal(first, again));
}

TEST_CASE("example: broadcasting") {
  //! [broadcast]
  const Tensor column = tensor({{1.0}, {2.0}});   // [2, 1]
  const Tensor row = tensor({10.0, 20.0, 30.0});  // [3]
  const Tensor sums = column + row;               // [2, 3]: 11 21 31, 12 22 32
  const Tensor scaled = 2.0 * row - 1.0;          // 19 39 59
  //! [broadcast]
  CHECK(values(sums) == Values{11, 21, 31, 12, 22, 32});
  CHECK(values(scaled) == Values{19, 39, 59});
}

TEST_CASE("example: matmul") {
  //! [matmul]
  const Tensor a = tensor({{1.0, 2.0}, {3.0, 4.0}});
  const Tensor x = tensor({1.0, -1.0});
  const Tensor y = matmul(a, x);                    // [2]: -1 -1
  const Tensor batch = matmul(ones({8, 5, 2}), a);  // [8, 5, 2]: a serves all of the batch
  const Tensor trace = einsum("ii", {a});           // 5
  //! [matmul]
  CHECK(values(y) == Values{-1, -1});
  CHECK(batch.shape() == Shape{8, 5, 2});
  CHECK(trace.item() == 5);
}

TEST_CASE("example: sum") {
  //! [sum]
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}});
  const double all = x.sum().item();     // 10
  const Tensor columns = x.sum(0);       // [2]: 4 6
  const Tensor rows = x.mean(-1, true);  // [2, 1]: 1.5 3.5; the dimension is kept
  //! [sum]
  CHECK(all == 10);
  CHECK(values(columns) == Values{4, 6});
  CHECK(rows.shape() == Shape{2, 1});
  CHECK(values(rows) == Values{1.5, 3.5});
}

TEST_CASE("example: max") {
  //! [max]
  const Tensor logits = tensor({{0.1, 0.7, 0.2}, {0.5, 0.3, 0.2}});
  const auto [best, where] = max(logits, 1);  // 0.7 0.5 at 1 0
  const Tensor classes = argmax(logits, 1);   // 1 0
  const Tensor largest = max(logits);         // 0.7, of all
  //! [max]
  CHECK(equal(where, classes));
  CHECK(values(classes) == Values{1, 0});
  CHECK(equal(best, tensor({0.7, 0.5})));
  CHECK(largest.item<float>() == 0.7F);
}

TEST_CASE("example: topk") {
  //! [topk]
  const auto [values, indices] = topk(tensor({3.0, 1.0, 4.0, 1.0, 5.0}), 2);  // 5 4 at 4 2
  //! [topk]
  CHECK(values.to_vector<double>() == Values{5, 4});
  CHECK(indices.to_vector<double>() == Values{4, 2});
}

TEST_CASE("example: reshape") {
  //! [reshape]
  const Tensor x = arange(6);
  const Tensor table = x.reshape({2, -1});      // [2, 3], a view: it shares x's values
  const Tensor turned = table.transpose(0, 1);  // [3, 2], a view with other strides
  const Tensor flat = turned.flatten();         // [6]: 0 3 1 4 2 5, a copy as no view can be it
  //! [reshape]
  CHECK(&table.array().storage() == &x.array().storage());
  CHECK(turned.shape() == Shape{3, 2});
  CHECK(values(flat) == Values{0, 3, 1, 4, 2, 5});
}

TEST_CASE("example: slice") {
  //! [slice]
  const Tensor x = arange(12).reshape({3, 4});
  const Tensor row = x[1];                      // [4]: 4 5 6 7
  const Tensor middle = x.slice(1, 1, 3);       // [3, 2]: columns 1 and 2
  const Tensor every = x.slice(1, 0, kEnd, 2);  // [3, 2]: columns 0 and 2
  middle.fill_(0);                              // slices are views: x changes too
  //! [slice]
  CHECK(values(row) == Values{4, 0, 0, 7});
  CHECK(values(every) == Values{0, 0, 4, 0, 8, 0});
  CHECK(x.sum().item() == 0 + 3 + 4 + 7 + 8 + 11);
}

TEST_CASE("example: cat") {
  //! [cat]
  const Tensor a = ones({2, 3});
  const Tensor b = zeros({1, 3});
  const Tensor longer = cat({a, b});                  // [3, 3]
  const Tensor deeper = stack({a, a}, 1);             // [2, 2, 3]: a new dimension
  const std::vector<Tensor> parts = longer.split(2);  // [2, 3] and [1, 3]
  //! [cat]
  CHECK(longer.shape() == Shape{3, 3});
  CHECK(deeper.shape() == Shape{2, 2, 3});
  CHECK(parts.at(1).shape() == Shape{1, 3});
}

TEST_CASE("example: where") {
  //! [where]
  const Tensor x = tensor({-2.0, 0.5, 3.0});
  const Tensor positive = x > 0.0;                   // bool: false true true
  const Tensor y = where(positive, x, 0.1 * x);      // -0.2 0.5 3
  const Tensor chosen = masked_select(x, positive);  // [2]: 0.5 3
  //! [where]
  CHECK(equal(y, tensor({-0.2, 0.5, 3.0})));
  CHECK(values(chosen) == Values{0.5, 3});
}

TEST_CASE("example: index_put") {
  //! [index_put]
  const Tensor x = zeros({2, 3});
  x.index_put_({Slice(), 0}, 1.0);               // x[:, 0] = 1
  x.index_put_({1, Slice(1)}, 2.0, true);        // x[1, 1:] += 2
  const Tensor y = x.index_put({x > 1.5}, 0.5);  // a copy; x stays as it is
  //! [index_put]
  CHECK(equal(x, tensor({{1.0, 0.0, 0.0}, {1.0, 2.0, 2.0}})));
  CHECK(equal(y, tensor({{1.0, 0.0, 0.0}, {1.0, 0.5, 0.5}})));
}

TEST_CASE("example: gather") {
  //! [gather]
  const Tensor log_p = tensor({{-0.1, -2.0, -3.0}, {-1.0, -0.5, -4.0}});
  const Tensor classes = tensor({0, 2});
  const Tensor of_class = log_p.gather(1, classes.unsqueeze(1)).squeeze(1);  // -0.1 -4
  //! [gather]
  CHECK(equal(of_class, tensor({-0.1, -4.0})));
}

TEST_CASE("example: dtypes") {
  //! [to]
  const Tensor x = tensor({1.5, -2.5});
  const Tensor half = x.to(kBFloat16);  // two bytes an element
  const Tensor whole = x.to(kInt64);    // 1 -2: towards zero
  const Tensor mixed = half + x;        // promoted to float32
  //! [to]
  CHECK(half.array().nbytes() == 4);
  CHECK(values(whole) == Values{1, -2});
  CHECK(mixed.dtype() == kFloat32);
}

TEST_CASE("example: embedding") {
  //! [embedding]
  const Tensor table = randn({10, 4}, {.requires_grad = true});
  const Tensor tokens = tensor({{7, 7, 1}});
  const Tensor vectors = embedding(table, tokens);  // [1, 3, 4]
  vectors.sum().backward();                         // row 7 was used twice: its gradient is 2
  //! [embedding]
  CHECK(vectors.shape() == Shape{1, 3, 4});
  CHECK(values(table.grad()[7]) == Values(4, 2.0));
}

TEST_CASE("example: softmax") {
  //! [softmax]
  const Tensor logits = tensor({{1.0, 1.0}, {1000.0, 0.0}});
  const Tensor p = softmax(logits, -1);  // 0.5 0.5, 1 0: large logits do not overflow
  const Tensor log_p = log_softmax(logits, -1);
  //! [softmax]
  CHECK(values(p) == Values{0.5, 0.5, 1, 0});
  CHECK(log_p[1][1].item() == -1000);
}

TEST_CASE("example: cross_entropy") {
  //! [cross_entropy]
  const Tensor logits = zeros({4, 10}, {.requires_grad = true});  // [N, C], not probabilities
  const Tensor classes = tensor({3, 1, 4, 1});                    // [N], int64
  const Tensor loss = cross_entropy(logits, classes);             // log 10, the mean over rows
  const Tensor smooth = cross_entropy(logits, classes, {.label_smoothing = 0.1});
  //! [cross_entropy]
  CHECK(loss.item() == Approx(std::log(10.0)));
  CHECK(smooth.item() == Approx(std::log(10.0)));
}

TEST_CASE("example: conv2d") {
  //! [conv2d]
  const Tensor images = randn({8, 3, 32, 32});  // [N, C, H, W]
  const Tensor kernels = randn({16, 3, 3, 3});  // [O, C, KH, KW]
  const Tensor maps = conv2d(images, kernels, {}, {.stride = {2, 2}, .padding = {1, 1}});
  //! [conv2d]
  CHECK(maps.shape() == Shape{8, 16, 16, 16});
}

TEST_CASE("example: layer_norm") {
  //! [layer_norm]
  const Tensor x = randn({2, 5, 64});
  const Tensor y = layer_norm(x, {64});  // each row of 64 has mean 0 and variance 1
  //! [layer_norm]
  CHECK(mean(y, {-1}).abs().max().item() < 1e-6);  // float32, 64 terms
}

}  // namespace
