"use strict";
// The memory of one rank under data parallelism and under the stages of ZeRO. Rajbhandari et al.,
// "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020 (arXiv 1910.02054),
// section 5: with P parameters on N ranks a rank holds
//   stage 0  (p + g + K) P          stage 1  (p + g + K / N) P
//   stage 2  (p + (g + K) / N) P    stage 3  (p + g + K) P / N
// bytes, where p, g and K are the bytes of a parameter, of its gradient, and of its optimizer
// states. Activations come on top. Hero fills the rows of a shard up to a multiple of eight
// elements a rank, which is left out here.
const memory = (() => {
  const stages = [
    { name: "DDP", text: "data parallelism" },
    { name: "ZeRO-1", text: "optimizer states in parts" },
    { name: "ZeRO-2", text: "gradients too" },
    { name: "ZeRO-3", text: "parameters too" },
  ];
  const kinds = ["parameters", "gradients", "optimizer"];
  const devices = [16e9, 32e9, 80e9];

  // The last two are counted: nn::GPT of 12 layers of width 768, and of 4 of width 128.
  const models = [
    { name: "7.5 B: the paper's example", parameters: 7.5e9 },
    { name: "128 B: the paper's Table 1", parameters: 128e9 },
    { name: "1 T: the paper's Table 1", parameters: 1e12 },
    { name: "GPT-3, 175 B", parameters: 175e9 },
    { name: "GPT-2, the small one", parameters: 124439808 },
    { name: "The GPT of chapter 8a", parameters: 932608 },
  ];
  // Mixed precision: 16 bits, and a float32 copy of the parameters among the optimizer's states.
  const precisions = [
    { name: "Adam, mixed precision", bytes: { parameters: 2, gradients: 2, optimizer: 12 } },
    { name: "Adam, float32", bytes: { parameters: 4, gradients: 4, optimizer: 8 } },
    { name: "Momentum, mixed precision", bytes: { parameters: 2, gradients: 2, optimizer: 8 } },
    { name: "Momentum, float32", bytes: { parameters: 4, gradients: 4, optimizer: 4 } },
    { name: "SGD, float32", bytes: { parameters: 4, gradients: 4, optimizer: 0 } },
  ];

  /** Bytes of a rank: of each kind, and together. */
  function held(stage, { parameters, ranks, bytes }) {
    const share = (kind, first) => (parameters * bytes[kind]) / (stage >= first ? ranks : 1);
    const rank = {
      parameters: share("parameters", 3),
      gradients: share("gradients", 2),
      optimizer: share("optimizer", 1),
    };
    rank.together = rank.parameters + rank.gradients + rank.optimizer;
    return rank;
  }

  /** How many parameters a device of so many bytes holds on that stage. */
  const largest = (stage, device, setting) =>
    device / held(stage, { ...setting, parameters: 1 }).together;

  return { stages, kinds, devices, models, precisions, held, largest };
})();
