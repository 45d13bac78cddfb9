#include <algorithm>
#include <cmath>
#include <cstring>

#include <hero/core/array/checked.h>
#include <hero/core/random.h>
#include <hero/nn/data/dataset.h>
#include <hero/nn/data/loader_workers.h>

namespace hero::nn::data {

const Tensor& Example::operator[](int field) const {
  check(field >= 0 && field < size(), "example: there is no field ", field, ", there are ", size());
  return fields_[static_cast<size_t>(field)];
}

Example Example::to(Device device) const {
  Example moved = *this;
  for (Tensor& field : moved.fields_) field = field.to(device);
  return moved;
}

namespace {

Shape with_front(int64_t size, const Shape& shape) {
  Shape result{size};
  for (const int64_t extent : shape) result.push_back(extent);
  return result;
}

void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

const std::byte* bytes_of(const Array& array) {
  return array.numel() > 0 ? array.bytes() : nullptr;
}

Tensor stack_field(const std::vector<Example>& samples, int field) {
  const Array& first = samples[0][field].array();
  check(first.device() == kCpu, "collate: field ", field, " lies on ", first.device(),
        "; batches are made on cpu");
  const Array out =
      Array::empty(with_front(static_cast<int64_t>(samples.size()), first.shape()), first.dtype());
  std::byte* to = out.numel() > 0 ? out.bytes() : nullptr;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Array& one = samples[i][field].array();
    check(one.shape() == first.shape() && one.dtype() == first.dtype() && one.device() == kCpu,
          "collate: field ", field, " of sample ", i, " is ", one.dtype(), " ", one.shape(),
          ", of sample 0 ", first.dtype(), " ", first.shape(), "; samples must agree");
    const Array dense = one.contiguous();
    copy_bytes(to, bytes_of(dense), dense.nbytes());
    if (to != nullptr) to += dense.nbytes();
  }
  return Tensor(out);
}

}  // namespace

Example collate(const std::vector<Example>& samples) {
  check(!samples.empty(), "collate: there are no samples");
  const int fields = samples[0].size();
  for (size_t i = 0; i < samples.size(); ++i) {
    check(samples[i].size() == fields, "collate: sample ", i, " has ", samples[i].size(),
          " fields, sample 0 has ", fields);
    for (int field = 0; field < fields; ++field) {
      check(samples[i][field].defined(), "collate: field ", field, " of sample ", i,
            " is an undefined tensor");
    }
  }
  std::vector<Tensor> batch;
  for (int field = 0; field < fields; ++field) batch.push_back(stack_field(samples, field));
  return Example(std::move(batch));
}

Example Dataset::get_batch(std::span<const int64_t> indices) const {
  std::vector<Example> samples;
  samples.reserve(indices.size());
  ExampleNumbers* const numbers = ExampleNumbers::of_batch(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    const ExampleNumbers::Scope drawing(numbers, i);
    samples.push_back(get(indices[i]));
  }
  return collate(samples);
}

void Dataset::check_index(const char* dataset, int64_t index) const {
  check(index >= 0 && index < size(), dataset, ": there is no sample ", index, ", there are ",
        size());
}

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  check(!tensors_.empty(), "tensor_dataset: there are no tensors");
  for (Tensor& tensor : tensors_) {
    check(tensor.defined() && tensor.ndim() > 0,
          "tensor_dataset: a tensor has no first dimension to count samples by");
    check(tensor.device() == kCpu, "tensor_dataset: a tensor lies on ", tensor.device(),
          "; move it to cpu");
    check(tensor.size(0) == tensors_[0].size(0), "tensor_dataset: tensors have ",
          tensors_[0].size(0), " and ", tensor.size(0), " samples");
    tensor = Tensor(tensor.array().contiguous());
  }
}

int64_t TensorDataset::size() const {
  check(!tensors_.empty(), "tensor_dataset: it was moved from; use the one that it was moved into");
  return tensors_[0].size(0);
}

Example TensorDataset::get(int64_t index) const {
  check_index("tensor_dataset", index);
  std::vector<Tensor> fields;
  for (const Tensor& tensor : tensors_) fields.emplace_back(tensor.array().select(0, index));
  return Example(std::move(fields));
}

Example TensorDataset::get_batch(std::span<const int64_t> indices) const {
  for (const int64_t index : indices) check_index("tensor_dataset", index);
  std::vector<Tensor> fields;
  for (const Tensor& tensor : tensors_) {
    const Array& from = tensor.array();
    Shape shape = from.shape();
    shape[0] = static_cast<int64_t>(indices.size());
    const Array out = Array::empty(shape, from.dtype());
    if (out.numel() > 0) {
      const int64_t row = from.nbytes() / from.size(0);
      std::byte* to = out.bytes();
      for (const int64_t index : indices) {
        copy_bytes(to, from.bytes() + index * row, row);
        to += row;
      }
    }
    fields.emplace_back(out);
  }
  return Example(std::move(fields));
}

Subset::Subset(const AnyDataset& dataset, std::vector<int64_t> indices)
    : dataset_(dataset),
      indices_(std::make_shared<const std::vector<int64_t>>(std::move(indices))) {
  for (const int64_t index : *indices_) {
    check(index >= 0 && index < dataset_->size(), "subset: the dataset has no sample ", index,
          ", it has ", dataset_->size());
  }
}

Example Subset::get(int64_t index) const {
  check_index("subset", index);
  return dataset_->get((*indices_)[static_cast<size_t>(index)]);
}

Example Subset::get_batch(std::span<const int64_t> indices) const {
  std::vector<int64_t> inner;
  for (const int64_t index : indices) {
    check_index("subset", index);
    inner.push_back((*indices_)[static_cast<size_t>(index)]);
  }
  return dataset_->get_batch(inner);
}

ConcatDataset::ConcatDataset(std::vector<AnyDataset> datasets) : datasets_(std::move(datasets)) {
  int64_t end = 0;
  for (const AnyDataset& dataset : datasets_) ends_.push_back(end += dataset->size());
}

ConcatDataset::SampleIndex ConcatDataset::find(int64_t index) const {
  check_index("concat_dataset", index);
  const auto at =
      static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return {at, at == 0 ? index : index - ends_[at - 1]};
}

Example ConcatDataset::get(int64_t index) const {
  const SampleIndex at = find(index);
  return datasets_[at.dataset]->get(at.index);
}

Example ConcatDataset::get_batch(std::span<const int64_t> indices) const {
  std::vector<int64_t> inner;
  size_t dataset = 0;
  for (const int64_t index : indices) {
    const SampleIndex at = find(index);
    if (!inner.empty() && at.dataset != dataset) return Dataset::get_batch(indices);
    dataset = at.dataset;
    inner.push_back(at.index);
  }
  return inner.empty() ? Dataset::get_batch(indices) : datasets_[dataset]->get_batch(inner);
}

StackDataset::StackDataset(std::vector<AnyDataset> datasets) : datasets_(std::move(datasets)) {
  check(!datasets_.empty(), "stack_dataset: there are no datasets");
  for (const AnyDataset& dataset : datasets_) {
    check(dataset->size() == size(), "stack_dataset: datasets have ", size(), " and ",
          dataset->size(), " samples");
  }
}

int64_t StackDataset::size() const {
  check(!datasets_.empty(), "stack_dataset: it was moved from; use the one that it was moved into");
  return datasets_[0]->size();
}

namespace {

// The fields of what each dataset gives, one after the other.
template <class Get>
Example side_by_side(const std::vector<AnyDataset>& datasets, const Get& get) {
  std::vector<Tensor> fields;
  for (const AnyDataset& dataset : datasets) {
    const Example part = get(*dataset);
    fields.insert(fields.end(), part.fields().begin(), part.fields().end());
  }
  return Example(std::move(fields));
}

}  // namespace

Example StackDataset::get(int64_t index) const {
  check_index("stack_dataset", index);
  return side_by_side(datasets_, [&](const Dataset& one) { return one.get(index); });
}

Example StackDataset::get_batch(std::span<const int64_t> indices) const {
  for (const int64_t index : indices) check_index("stack_dataset", index);
  return side_by_side(datasets_, [&](const Dataset& one) { return one.get_batch(indices); });
}

MapDataset::MapDataset(const AnyDataset& dataset, Function function)
    : dataset_(dataset), function_(std::move(function)) {
  check(static_cast<bool>(function_), "map_dataset: the function is empty");
}

int64_t MapDataset::size() const {
  check(static_cast<bool>(function_),
        "map_dataset: it was moved from; use the one that it was moved into");
  return dataset_->size();
}

Example MapDataset::get(int64_t index) const {
  check_index("map_dataset", index);
  return function_(dataset_->get(index));
}

std::vector<Subset> random_split(const AnyDataset& dataset, const std::vector<int64_t>& lengths,
                                 uint64_t seed) {
  int64_t total = 0;
  for (const int64_t length : lengths) {
    check(length >= 0, "random_split: a length is negative: ", length);
    total = (core::Checked{"random_split", total} + length).value;
  }
  check(total == dataset->size(), "random_split: the lengths add up to ", total,
        ", the dataset has ", dataset->size(), " samples");
  std::vector<int64_t> order(static_cast<size_t>(total));
  fill_permutation(order, named_stream(seed, "random_split"));
  std::vector<Subset> parts;
  auto begin = order.begin();
  for (const int64_t length : lengths) {
    parts.emplace_back(dataset, std::vector<int64_t>(begin, begin + length));
    begin += length;
  }
  return parts;
}

std::vector<Subset> random_split(const AnyDataset& dataset, const std::vector<double>& fractions,
                                 uint64_t seed) {
  double sum = 0;
  for (const double fraction : fractions) {
    check(fraction >= 0 && fraction <= 1, "random_split: a fraction is not in [0, 1]: ", fraction);
    sum += fraction;
  }
  check(std::abs(sum - 1) < 1e-9, "random_split: the fractions add up to ", sum, ", not to 1");
  std::vector<int64_t> lengths;
  int64_t left = dataset->size();
  for (const double fraction : fractions) {
    lengths.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(dataset->size()) * fraction)));
    left -= lengths.back();
  }
  for (size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left) ++lengths[i];
  return random_split(dataset, lengths, seed);
}

std::vector<Subset> random_split(const AnyDataset& dataset, std::initializer_list<int> lengths,
                                 uint64_t seed) {
  return random_split(dataset, std::vector<int64_t>(lengths.begin(), lengths.end()), seed);
}

std::vector<Subset> random_split(const AnyDataset& dataset, std::initializer_list<double> fractions,
                                 uint64_t seed) {
  return random_split(dataset, std::vector<double>(fractions), seed);
}

}  // namespace hero::nn::data
