#include <hero/nn/dropout.h>
#include <hero/nn/module/repr.h>

namespace hero::nn {

namespace {

double checked(const char* layer, double p) {
  check(p >= 0.0 && p <= 1.0, layer, ": p is outside [0, 1]: ", p);
  return p;
}

std::string describe(double p) { return "p=" + repr::text(p) + ", inplace=False"; }

}  // namespace

Dropout::Dropout(double p) : p_(checked("Dropout", p)) {}
std::string Dropout::extra_repr() const { return describe(p_); }

Dropout1d::Dropout1d(double p) : p_(checked("Dropout1d", p)) {}
std::string Dropout1d::extra_repr() const { return describe(p_); }

Dropout2d::Dropout2d(double p) : p_(checked("Dropout2d", p)) {}
std::string Dropout2d::extra_repr() const { return describe(p_); }

Dropout3d::Dropout3d(double p) : p_(checked("Dropout3d", p)) {}
std::string Dropout3d::extra_repr() const { return describe(p_); }

AlphaDropout::AlphaDropout(double p) : p_(checked("AlphaDropout", p)) {}
std::string AlphaDropout::extra_repr() const { return describe(p_); }

FeatureAlphaDropout::FeatureAlphaDropout(double p) : p_(checked("FeatureAlphaDropout", p)) {}
std::string FeatureAlphaDropout::extra_repr() const { return describe(p_); }

}  // namespace hero::nn
