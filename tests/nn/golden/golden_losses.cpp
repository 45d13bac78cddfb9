// Makers of losses and distances.
#include "nn/golden/layer_cases.h"

#include <hero/nn/loss.h>

namespace hero::test {

namespace {

using I = int64_t;

Reduction reduction(const Json& a) {
  const std::string name = get(a, "reduction", std::string("mean"));
  if (name == "none") return Reduction::none;
  return name == "sum" ? Reduction::sum : Reduction::mean;
}

KlReduction kl_reduction(const Json& a) {
  const std::string name = get(a, "reduction", std::string("mean"));
  if (name == "batchmean") return KlReduction::batchmean;
  if (name == "none") return KlReduction::none;
  return name == "sum" ? KlReduction::sum : KlReduction::mean;
}

template <class M>
Subject reduced(const Json& a, const Json&) {
  return layer2<M>(reduction(a));
}
template <class M>
Maker scaled(const char* name, double otherwise) {
  return
      [=](const Json& a, const Json&) { return layer2<M>(get(a, name, otherwise), reduction(a)); };
}
template <class M>
Maker margin(double otherwise) {
  return [=](const Json& a, const Json&) {
    return layer3<M>(get(a, "margin", otherwise), reduction(a));
  };
}

void add_numbers(Makers& m) {
  m["MSELoss"] = reduced<nn::MSELoss>;
  m["L1Loss"] = reduced<nn::L1Loss>;
  m["HuberLoss"] = scaled<nn::HuberLoss>("delta", 1.0);
  m["SmoothL1Loss"] = scaled<nn::SmoothL1Loss>("beta", 1.0);
  m["PoissonNLLLoss"] = [](const Json& a, const Json&) {
    return layer2<nn::PoissonNLLLoss>(PoissonNllOptions{.log_input = get(a, "log_input", true),
                                                        .full = get(a, "full", false),
                                                        .reduction = reduction(a)});
  };
  m["GaussianNLLLoss"] = [](const Json& a, const Json&) {
    return layer3<nn::GaussianNLLLoss>(GaussianNllOptions{
        .full = get(a, "full", false), .eps = get(a, "eps", 1e-6), .reduction = reduction(a)});
  };
}

void add_classes(Makers& m) {
  m["CrossEntropyLoss"] = [](const Json& a, const Json&) {
    return layer2<nn::CrossEntropyLoss>(
        CrossEntropyOptions{.weight = weights(a, "weight"),
                            .reduction = reduction(a),
                            .ignore_index = get(a, "ignore_index", I{-100}),
                            .label_smoothing = get(a, "label_smoothing", 0.0)});
  };
  m["NLLLoss"] = [](const Json& a, const Json&) {
    return layer2<nn::NLLLoss>(NllOptions{.weight = weights(a, "weight"),
                                          .reduction = reduction(a),
                                          .ignore_index = get(a, "ignore_index", I{-100})});
  };
  m["BCELoss"] = [](const Json& a, const Json&) {
    return layer2<nn::BCELoss>(
        BceOptions{.weight = weights(a, "weight"), .reduction = reduction(a)});
  };
  m["BCEWithLogitsLoss"] = [](const Json& a, const Json&) {
    return layer2<nn::BCEWithLogitsLoss>(
        BceWithLogitsOptions{.weight = weights(a, "weight"),
                             .pos_weight = weights(a, "pos_weight"),
                             .reduction = reduction(a)});
  };
  m["KLDivLoss"] = [](const Json& a, const Json&) {
    return layer2<nn::KLDivLoss>(kl_reduction(a), get(a, "log_target", false));
  };
}

void add_margins(Makers& m) {
  m["HingeEmbeddingLoss"] = scaled<nn::HingeEmbeddingLoss>("margin", 1.0);
  m["SoftMarginLoss"] = reduced<nn::SoftMarginLoss>;
  m["MultiMarginLoss"] = [](const Json& a, const Json&) {
    return layer2<nn::MultiMarginLoss>(MultiMarginOptions{.p = get(a, "p", I{1}),
                                                          .margin = get(a, "margin", 1.0),
                                                          .weight = weights(a, "weight"),
                                                          .reduction = reduction(a)});
  };
  m["MultiLabelSoftMarginLoss"] = [](const Json& a, const Json&) {
    return layer2<nn::MultiLabelSoftMarginLoss>(
        BceOptions{.weight = weights(a, "weight"), .reduction = reduction(a)});
  };
  m["MarginRankingLoss"] = margin<nn::MarginRankingLoss>(0.0);
  m["CosineEmbeddingLoss"] = margin<nn::CosineEmbeddingLoss>(0.0);
  m["TripletMarginLoss"] = [](const Json& a, const Json&) {
    return layer3<nn::TripletMarginLoss>(TripletMarginOptions{.margin = get(a, "margin", 1.0),
                                                              .p = get(a, "p", 2.0),
                                                              .swap = get(a, "swap", false),
                                                              .reduction = reduction(a)});
  };
}

}  // namespace

void add_losses(Makers& m) {
  add_numbers(m);
  add_classes(m);
  add_margins(m);
  m["CosineSimilarity"] = [](const Json& a, const Json&) {
    return layer2<nn::CosineSimilarity>(get(a, "dim", I{1}), get(a, "eps", 1e-8));
  };
  m["PairwiseDistance"] = [](const Json& a, const Json&) {
    return layer2<nn::PairwiseDistance>(get(a, "p", 2.0), get(a, "eps", 1e-6),
                                        get(a, "keepdim", false));
  };
}

}  // namespace hero::test
