#pragma once
// The order of products of halves for the length of a test.
#include <hero/core/functions/half_products.h>

namespace hero::test {

/// While it lives, products of halves are taken in this order; then in the one before it.
class HalfProductsScope {
 public:
  explicit HalfProductsScope(HalfProducts order) { set_half_products(order); }
  ~HalfProductsScope() { set_half_products(before_); }
  HalfProductsScope(const HalfProductsScope&) = delete;
  HalfProductsScope& operator=(const HalfProductsScope&) = delete;

 private:
  HalfProducts before_ = half_products();
};

}  // namespace hero::test
