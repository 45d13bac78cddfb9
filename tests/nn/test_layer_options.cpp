// Options of layers that came later, with PyTorch's numbers: projected states of an LSTM, further
// keys of attention.
#include "support/close.h"

#include <hero/nn/attention.h>
#include <hero/nn/recurrent.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using test::check_near, test::waves;

namespace {

void fill(nn::Module& module) {
  module.to(kFloat64);
  double phase = 0.0;
  for (const Tensor& parameter : module.parameters()) {
    parameter.detach().copy_(waves(parameter.shape(), phase) * 0.5);
    phase += 0.1;
  }
}

std::vector<std::string> names(nn::Module& module) {
  std::vector<std::string> list;
  for (const auto& [name, parameter] : module.named_parameters()) list.push_back(name);
  return list;
}

}  // namespace

TEST_CASE(
    "an LSTM with projected states is PyTorch's, over layers, directions and packed sequences") {
  nn::LSTM lstm(3, 5, {.num_layers = 2, .bidirectional = true, .proj_size = 2});
  fill(lstm);
  CHECK(to_string(lstm) == "LSTM(3, 5, proj_size=2, num_layers=2, bidirectional=True)");
  CHECK(names(lstm)[4] == "weight_hr_l0");
  CHECK(lstm.output_size() == 2);
  const Tensor x = waves({4, 2, 3}, 0.2).requires_grad_();
  const auto [output, state] = lstm(x);
  CHECK(output.shape() == Shape{4, 2, 4});
  check_near(output,
             {0.224272469177,  -0.261916121114, 0.429348538693,  -0.502855485767, 0.223566623664,
              -0.260954230343, 0.427836397746,  -0.50033084312,  0.327981210302,  -0.391783682659,
              0.392610860447,  -0.460332067856, 0.323049939385,  -0.38535784624,  0.387502211668,
              -0.45612468017,  0.376067158143,  -0.453287033895, 0.321115665904,  -0.376830555237,
              0.376904858203,  -0.455053335323, 0.326273928309,  -0.383018487085, 0.402642944696,
              -0.488293300464, 0.205640181122,  -0.241525615304, 0.403780422661,  -0.489721221885,
              0.207189364813,  -0.242140947355});
  CHECK(state.h.shape() == Shape{4, 2, 2});
  check_near(state.h, {0.19778546292, -0.306951946885, 0.238625654377, -0.306601714569,
                       0.273733341582, -0.393357697233, 0.356378543541, -0.444599928594,
                       0.402642944696, -0.488293300464, 0.403780422661, -0.489721221885,
                       0.429348538693, -0.502855485767, 0.427836397746, -0.50033084312});
  check_near(state.c,
             {0.593457791334, 0.512837295769, 0.647174370731,  0.038895129551,  -0.781108878289,
              0.56111762518,  0.68454079322,  0.43930487027,   0.200259003607,  -0.510008531334,
              0.556681119205, 0.646574140259, 0.397332231616,  -0.694163355231, -0.490447247815,
              0.682406033346, 0.589724979339, 0.353843241893,  -0.339390824817, -0.689000249127,
              0.805449644275, 0.474510930052, -0.223583136625, -0.749690522964, -0.46736483264,
              0.800293372539, 0.487841481802, -0.236555583379, -0.743550907217, -0.470829721584,
              0.679290132769, 0.011173064665, -0.694013456598, -0.623969674461, -0.387088021363,
              0.669117167535, 0.026478795182, -0.704028304132, -0.618847360831, -0.385692517968});
  (output.sum() + state.h.sum() * 2.0 + state.c.sum()).backward();
  check_near(abs(x.grad()).sum(Dims{0, 1}), {0.621569081751, 1.067787558925, 1.172051855046});
  std::vector<double> sums;
  for (const Tensor& p : lstm.parameters()) sums.push_back(abs(p.grad()).sum().item());
  sums.resize(10);
  check_near(tensor(sums, {.dtype = kFloat64}),
             {9.57284112092617, 4.122179825290759, 10.417058491359247, 10.41705849135925,
              8.337862316793972, 9.641132209674948, 4.8063799707547945, 10.193675995016273,
              10.193675995016273, 8.351068043717111});
  const auto packed = lstm(nn::pack_padded_sequence(x, {4, 2}));
  check_near(packed.output.data,
             {0.224272469177,  -0.261916121114, 0.429348538693,  -0.502855485767, 0.224165864613,
              -0.261728059841, 0.322765730492,  -0.37801712386,  0.327981210302,  -0.391783682659,
              0.392610860447,  -0.460332067856, 0.324752771778,  -0.387617174782, 0.206139744403,
              -0.241887531636, 0.376067158143,  -0.453287033895, 0.321115665904,  -0.376830555237,
              0.402642944696,  -0.488293300464, 0.205640181122,  -0.241525615304});
  check_near(packed.state.h, {0.19778546292, -0.306951946885, 0.188952216185, -0.292208380383,
                              0.273733341582, -0.393357697233, 0.321347440818, -0.396000770662,
                              0.402642944696, -0.488293300464, 0.324752771778, -0.387617174782,
                              0.429348538693, -0.502855485767, 0.322765730492, -0.37801712386});
}

TEST_CASE("an LSTM with projected states takes one sequence, states and meta, and refuses sizes") {
  nn::LSTM lstm(3, 5, {.batch_first = true, .proj_size = 2});
  fill(lstm);
  const Tensor x = waves({4, 3}, 0.2);
  check_near(lstm.forward(x), {0.132551680636, -0.203735119131, 0.252692202173, -0.326056701363,
                               0.149948308736, -0.174590435279, 0.177671971525, -0.272736540156});
  // In two parts, with the state between them.
  const auto first = lstm(x.slice(0, 0, 2));
  const auto second = lstm(x.slice(0, 2), first.state);
  check_near(cat({first.output, second.output}),
             {0.132551680636, -0.203735119131, 0.252692202173, -0.326056701363, 0.149948308736,
              -0.174590435279, 0.177671971525, -0.272736540156});
  CHECK_THROWS_WITH(lstm(x, {zeros({1, 5}, kFloat64), zeros({1, 5}, kFloat64)}),
                    ContainsSubstring("h has shape [1, 5]; it should be [1, 2]"));
  const nn::DeviceScope meta(kMeta);
  nn::LSTM planned(3, 5, {.proj_size = 2});
  CHECK(planned(zeros({4, 2, 3}, {.device = kMeta})).output.shape() == Shape{4, 2, 2});
  CHECK_THROWS_WITH(nn::LSTM(3, 5, {.proj_size = 5}),
                    ContainsSubstring("proj_size 5 is not between"));
  CHECK_THROWS_WITH(nn::GRU(3, 5, {.proj_size = 2}),
                    ContainsSubstring("only LSTM has a proj_size"));
}

TEST_CASE("attention with further keys and values is PyTorch's") {
  struct Case {
    bool bias, zero;
    std::vector<double> output, weights;
  };
  const std::vector<Case> cases = {
      {true,
       false,
       {0.743006433516, -0.116159025069, 1.066939685785,  -0.279034478626, 0.606147484809,
        0.000587961276, 0.983795397011,  -0.239100652208, 0.656230284251,  0.029250085192,
        0.879700410601, -0.071601532629, 0.600165585051,  0.107220389254,  0.78883438501,
        0.021660161949, 0.652958011865,  -0.008840220664, 0.954751757268,  -0.174941337827,
        0.556864507711, 0.096731378096,  0.851901423638,  -0.086697172404},
       {0.339021826927,
        0.0,
        0.0,
        0.660978173073,
        0.48646297755,
        0.149387298666,
        0.0,
        0.364149723784,
        0.165537722843,
        0.451822452777,
        0.0,
        0.38263982438,
        0.427345071022,
        0.0,
        0.0,
        0.572654928978,
        0.232438721511,
        0.422477859084,
        0.0,
        0.345083419404,
        0.201876921891,
        0.147758506557,
        0.330915352341,
        0.319449219211}},
      {false,
       true,
       {0.324982730086, 0.167667284607, 0.79550281667,   0.026087485074, 0.396105827409,
        0.073234099256, 0.902333833222, -0.080796470519, 0.408598559022, 0.158437925943,
        0.72927920358,  0.160111579203, 0.178728798132,  0.390012175177, 0.522760102165,
        0.317711152224, 0.429391414405, 0.092472506215,  0.832794532556, 0.031008087805,
        0.333130983448, 0.190091289074, 0.745097767355,  0.0986490077},
       {0.373638606618,
        0.0,
        0.0,
        0.626361393382,
        0.522568568691,
        0.161377472894,
        0.0,
        0.316053958414,
        0.168694057199,
        0.488422847187,
        0.0,
        0.342883095614,
        0.484017238058,
        0.0,
        0.0,
        0.515982761942,
        0.247708140427,
        0.442595460945,
        0.0,
        0.309696398628,
        0.215969065777,
        0.158993373145,
        0.355159917163,
        0.269877643914}},
      {true,
       true,
       {0.567495806822, 0.086440610328, 0.860662507114,  -0.092916181795, 0.522537012735,
        0.106886559225, 0.867092041549, -0.125478232661, 0.559028454827,  0.131179051032,
        0.784822742473, 0.005261218612, 0.468373817401,  0.240189299842,  0.670053596318,
        0.112527076855, 0.558740724096, 0.099514040865,  0.844781433198,  -0.076062607058,
        0.487185280968, 0.177081206732, 0.770165843161,  -0.013020821135},
       {0.218735137112,
        0.0,
        0.0,
        0.430902445017,
        0.350362417871,
        0.375864296594,
        0.115542644427,
        0.0,
        0.281555056843,
        0.227038002137,
        0.124766741834,
        0.342594566406,
        0.0,
        0.290730166427,
        0.241908525334,
        0.298761874077,
        0.0,
        0.0,
        0.39049255699,
        0.310745568933,
        0.180073996751,
        0.327710067003,
        0.0,
        0.267045316889,
        0.225170619357,
        0.162273238967,
        0.117840882701,
        0.264839680349,
        0.254806099218,
        0.200240098765}}};
  const Tensor q = waves({2, 3, 4}, 0.4);
  const Tensor mask = triu(ones({3, 3}, kBool), 1);
  const Tensor padding = tensor({{false, false, true}, {false, false, false}});
  for (const Case& each : cases) {
    nn::MultiheadAttention attention(
        4, 2, {.batch_first = true, .add_bias_kv = each.bias, .add_zero_attn = each.zero});
    fill(attention);
    CHECK(attention.bias_k.defined() == each.bias);
    const auto found = attention(q, q, q, {.key_padding_mask = padding, .attn_mask = mask});
    check_near(found.output, each.output);
    check_near(found.weights, each.weights);
    // The same without weights, and by is_causal.
    check_near(
        attention(q, q, q, {.key_padding_mask = padding, .need_weights = false, .attn_mask = mask})
            .output,
        each.output);
    check_near(
        attention(q, q, q, {.key_padding_mask = padding, .need_weights = false, .is_causal = true})
            .output,
        each.output);
    check_near(attention(q, q, q, {.key_padding_mask = padding, .is_causal = true}).weights,
               each.weights);
    found.output.sum().backward();
    if (each.bias) CHECK(abs(attention.bias_k.grad()).sum().item() > 0.0);
  }
}
