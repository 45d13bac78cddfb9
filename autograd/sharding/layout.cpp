#include <algorithm>
#include <utility>

#include <hero/autograd/sharding/layout.h>

namespace hero::layout {

namespace {

bool share_elements(const Box& a, const Box& b) {
  for (int d = 0; d < a.offset.size(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    if (begin >= end) return false;
  }
  return true;
}

void check_inside(const char* op, const Shape& whole, const Box& box) {
  check(is_inside(whole, box), op, ": the box of offset ", box.offset, " and extent ", box.extent,
        " does not lie in an array of shape ", whole);
}

Box all_of(const Shape& whole) { return {Shape::filled(whole.size(), 0), whole}; }

}  // namespace

bool is_inside(const Shape& whole, const Box& box) {
  if (box.offset.size() != whole.size() || box.extent.size() != whole.size()) return false;
  for (int d = 0; d < whole.size(); ++d) {
    const int64_t offset = box.offset[d], extent = box.extent[d];
    if (offset < 0 || extent < 0 || offset > whole[d] || extent > whole[d] - offset) return false;
  }
  return true;
}

void check_boxes(const char* op, const Shape& whole, const std::vector<Box>& boxes) {
  for (size_t i = 0; i < boxes.size(); ++i) {
    check_inside(op, whole, boxes[i]);
    for (size_t j = 0; j < i; ++j) {
      check(!share_elements(boxes[i], boxes[j]), op, ": the boxes ", text({boxes[j]}), " and ",
            text({boxes[i]}), " of an array of shape ", whole, " share elements");
    }
  }
}

int64_t numel(const Shape& whole, const std::vector<Box>& boxes) {
  if (boxes.empty()) return whole.numel();
  int64_t sum = 0;
  for (const Box& box : boxes) {
    check(!__builtin_add_overflow(sum, box.extent.numel(), &sum), "layout: ", boxes.size(),
          " boxes of an array of shape ", whole, " have more elements than can be counted");
  }
  return sum;
}

std::string text(const std::vector<Box>& boxes) {
  std::string all;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (i > 0) all += ';';
    for (int d = 0; d < boxes[i].offset.size(); ++d) {
      if (d > 0) all += ',';
      all += std::to_string(boxes[i].offset[d]) + ":" + std::to_string(boxes[i].extent[d]);
    }
  }
  return all;
}

Runs::Runs(const Shape& whole, std::vector<Box> boxes, int64_t first, int64_t count)
    : whole_(whole), strides_(contiguous_strides(whole)), boxes_(std::move(boxes)), left_(count) {
  if (boxes_.empty()) boxes_.push_back(all_of(whole));
  for (const Box& box : boxes_) check_inside("layout", whole, box);
  check(first >= 0 && count >= 0 && first <= numel(whole, boxes_) - count, "layout: elements ",
        first, " to ", first, " + ", count, " lie outside ", numel(whole, boxes_),
        " elements of an array of shape ", whole);
  enter(0);
  for (at_ = first; left_ > 0 && at_ >= size_;) {
    at_ -= size_;
    enter(box_ + 1);
  }
}

// [note: lines of a box] Dimensions that a box takes whole are one line of memory together with the
// one before them; those further out say where a line begins.
void Runs::enter(size_t box) {
  box_ = box;
  const Shape& extent = boxes_[box].extent;
  size_ = extent.numel();
  line_ = 1;
  outer_ = whole_.size();
  for (bool spans = true; spans && outer_ > 0;) {
    --outer_;
    line_ *= extent[outer_];
    spans = extent[outer_] == whole_[outer_];
  }
}

// What is left of the line at which the part has arrived.
Run Runs::step() {
  while (left_ > 0 && at_ == size_) {
    enter(box_ + 1);
    at_ = 0;
  }
  if (left_ == 0) return {};
  const Box& box = boxes_[box_];
  int64_t line = at_ / line_;
  const int64_t within = at_ % line_;
  Run run = {within, part_, std::min(line_ - within, left_)};
  for (int d = whole_.size() - 1; d >= 0; --d) {
    run.whole += box.offset[d] * strides_[d];
    if (d >= outer_) continue;
    run.whole += line % box.extent[d] * strides_[d];
    line /= box.extent[d];
  }
  at_ += run.count;
  part_ += run.count;
  left_ -= run.count;
  return run;
}

bool Runs::next(Run& run) {
  run = ahead_.count > 0 ? ahead_ : step();
  if (run.count == 0) return false;
  for (ahead_ = step(); ahead_.count > 0 && ahead_.whole == run.whole + run.count;
       ahead_ = step()) {
    run.count += ahead_.count;
  }
  return true;
}

}  // namespace hero::layout
