"""The cases of gpu_torch.py: those of tests/cuda/bench/bench_cases.cpp, by the same names."""
import torch
import torch.nn.functional as F
from torch import nn

WARM_UP = 3  # calls before a graph is captured, or time taken


def gpt(config):
    """GPT-2 in the form that PyTorch's users write: packed projections, SDPA, tied embeddings."""
    vocabulary, block_size, layers, heads, width = config

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            B, T, C = x.shape
            q, k, v = (y.view(B, T, heads, C // heads).transpose(1, 2)
                       for y in self.c_attn(self.ln_1(x)).split(C, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.c_proj(y.transpose(1, 2).reshape(B, T, C))
            return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(block_size, width)
            self.h = nn.ModuleList(Block() for _ in range(layers))
            self.ln_f = nn.LayerNorm(width)
            self.lm_head = nn.Linear(width, vocabulary, bias=False)
            self.lm_head.weight = self.wte.weight
            for p in self.parameters():
                if p.ndim > 1:
                    nn.init.normal_(p, 0.0, 0.02)

        def forward(self, tokens):
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
            for block in self.h:
                x = block(x)
            return self.lm_head(self.ln_f(x))

    return GPT()


class Cases:
    """Each case is a method that makes its data on the device and returns the call to time."""

    def __init__(self, tiny, device):
        self.tiny, self.device = tiny, device
        self.all = {}
        self.config = (64, 16, 2, 2, 32) if tiny else (50304, 1024, 12, 12, 768)
        T = self.config[1]
        for B in (16, 1):
            size = 2 if tiny and B > 1 else B
            self.add(f"gpt2_b{B}", f"B = {size}, T = {T}, bf16", lambda compiled, B=size: self.step(B, compiled),
                     ("eager", "compile"))
        self.all["gpt2_b1", "graphed"] = self.all["gpt2_b1", "eager"][0], self.graphed_step
        self.add("clip_adamw", "GPT-2's parameters, float32", self.clip_adamw)
        rows, vocabulary = (24, 96) if tiny else (16384, 50304)
        for name, cast, words in (("cross_entropy", True, " under autocast"), ("cross_entropy_bf16", False, "")):
            self.add(name, f"{rows} x {vocabulary} bf16{words}, forward and backward",
                     lambda compiled, cast=cast: self.cross_entropy(rows, vocabulary, cast, compiled),
                     ("eager", "compile"))
        N, C = (24, 40) if tiny else (65536, 1024)
        for name, residual in (("add_layer_norm", True), ("layer_norm", False)):
            self.add(name, f"{N} x {C} bf16, forward and backward",
                     lambda compiled, residual=residual: self.layer_norm(N, C, residual, compiled),
                     ("eager", "compile"))
        count = 10 if tiny else 1000
        self.add("small_ops", f"{count} additions of 256 float32, in a row", lambda compiled: self.small_ops(count))
        self.memory_bound()
        self.feed_forward()
        self.products()

    def add(self, name, what, make, variants=("eager",)):
        for variant in variants:
            self.all[name, variant] = what, lambda variant=variant: make(variant == "compile")

    def random(self, *shape, dtype=None, grad=False):
        return torch.randn(shape, dtype=dtype or torch.float32, device=self.device, requires_grad=grad)

    def classes(self, count, *shape):
        return torch.randint(count, shape, device=self.device)

    def training(self, **options):
        model = gpt(self.config).to(self.device)
        return model, torch.optim.AdamW(model.parameters(), fused=True, **options)

    def parts_of_step(self, B, compile_loss, **options):
        """The step as two functions: what frees the gradients, and all that follows."""
        vocabulary, T = self.config[:2]
        model, adamw = self.training(**options)
        tokens, targets = self.classes(vocabulary, B, T), self.classes(vocabulary, B * T)

        def loss_of(tokens, targets):
            return F.cross_entropy(model(tokens).flatten(0, 1), targets)
        loss_of = compile_loss(loss_of)

        def rest():
            with torch.autocast(self.device, torch.bfloat16):
                loss = loss_of(tokens, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            adamw.step()
        return lambda: adamw.zero_grad(set_to_none=True), rest

    def step(self, B, compiled):
        # with CUDA graphs where it is the launches that count
        mode = "reduce-overhead" if B == 1 and self.device == "cuda" else None
        free, rest = self.parts_of_step(B, lambda f: torch.compile(f, mode=mode) if compiled else f)

        def call():
            free()
            rest()
        return call

    def graphed_step(self):
        """As PyTorch's page on CUDA graphs captures a whole network; the gradients lie in the graph's memory."""
        if self.device != "cuda":
            raise RuntimeError("CUDA graphs need a GPU")
        free, rest = self.parts_of_step(1, torch.compile, capturable=True)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                free()
                rest()
        torch.cuda.current_stream().wait_stream(stream)
        free()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            rest()
        return graph.replay

    def clip_adamw(self, compiled):
        model, adamw = self.training()
        for p in model.parameters():
            p.grad = torch.randn_like(p)

        def call():
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            adamw.step()
        return call

    def cross_entropy(self, rows, vocabulary, cast, compiled):
        x, y = self.random(rows, vocabulary, dtype=torch.bfloat16, grad=True), self.classes(vocabulary, rows)
        loss = torch.compile(F.cross_entropy) if compiled else F.cross_entropy

        # under autocast, as a bf16 model's loss is: in float32
        def call():
            with torch.autocast(self.device, torch.bfloat16, enabled=cast):
                value = loss(x, y)
            torch.autograd.grad(value, x)
        return call

    def layer_norm(self, N, C, residual, compiled):
        bf16 = torch.bfloat16
        x, r = self.random(N, C, dtype=bf16, grad=True), self.random(N, C, dtype=bf16, grad=True)
        w, b = self.random(C, dtype=bf16, grad=True), self.random(C, dtype=bf16, grad=True)
        gs, gy = self.random(N, C, dtype=bf16), self.random(N, C, dtype=bf16)

        def add_norm(x, r, w, b):
            total = x + r
            return total, F.layer_norm(total, (C,), w, b)

        def norm(x, w, b):
            return F.layer_norm(x, (C,), w, b)
        function, inputs, seeds = (add_norm, (x, r, w, b), (gs, gy)) if residual else (norm, (x, w, b), gy)
        if compiled:
            function = torch.compile(function)
        return lambda: torch.autograd.grad(function(*inputs), inputs, seeds)

    def small_ops(self, count):
        x = self.random(256)

        def call():
            y = x
            for _ in range(count):
                y = y + x
        return call

    def memory_bound(self):
        n = 1 << 10 if self.tiny else 1 << 28

        def unary(count, function):
            def make(compiled):
                x = self.random(*count)
                return lambda: function(x)
            return make

        def add(compiled):
            a, b = self.random(n // 4), self.random(n // 4)
            return lambda: a + b
        self.add("copy", f"{n} float32", unary((n,), lambda x: x.clone()))
        self.add("add", f"{n // 4} float32", add)
        self.add("sum", f"{n} float32", unary((n,), lambda x: x.sum()))
        rows, columns = (8, 128) if self.tiny else (16384, 4096)

        def softmax(compiled):
            x = self.random(rows, columns, dtype=torch.bfloat16)
            return lambda: torch.softmax(x, -1)
        self.add("softmax", f"{rows} x {columns} bf16", softmax)
        vocabulary, C = (64, 16) if self.tiny else (50304, 768)

        def embedding(compiled):
            w, y, g = self.random(vocabulary, C, grad=True), self.classes(vocabulary, rows), self.random(rows, C)
            return lambda: torch.autograd.grad(F.embedding(y, w), w, g)
        self.add("embedding_backward", f"{rows} rows of {C} float32 into {vocabulary}", embedding)
        self.add("sort", f"{n // 16} float32", unary((n // 16,), lambda x: x.sort()))

    def feed_forward(self):
        rows, width, vocabulary = (24, 16, 96) if self.tiny else (16384, 768, 50304)
        bf16 = torch.bfloat16
        what = f"{rows} x {width} x {4 * width} bf16"

        def layers(compiled):
            x, g = self.random(rows, width, dtype=bf16, grad=True), self.random(rows, width, dtype=bf16)
            w1, b1 = self.random(4 * width, width, dtype=bf16, grad=True), self.random(4 * width, dtype=bf16, grad=True)
            w2, b2 = self.random(width, 4 * width, dtype=bf16, grad=True), self.random(width, dtype=bf16, grad=True)

            def call():
                y = F.linear(F.gelu(F.linear(x, w1, b1), approximate="tanh"), w2, b2)
                torch.autograd.grad(y, (x, w1, b1, w2, b2), g)
            return call

        def weights(compiled):
            x, g = self.random(rows, width, dtype=bf16), self.random(rows, 4 * width, dtype=bf16)
            return lambda: (g.t() @ x, g.sum(0))

        def loss(compiled):
            x, w = self.random(rows, width, dtype=bf16, grad=True), self.random(vocabulary, width, dtype=bf16, grad=True)
            y = self.classes(vocabulary, rows)

            def call():
                with torch.autocast(self.device, bf16):
                    value = F.cross_entropy(F.linear(x, w), y)
                torch.autograd.grad(value, (x, w))
            return call
        self.add("feed_forward", what + ", forward and backward", layers)
        self.add("weight_gradient", what + ", with that of the bias", weights)
        self.add("linear_cross_entropy", f"{rows} x {width} x {vocabulary} bf16 under autocast, forward and backward", loss)

    def products(self):
        for full, dtype in ((4096, "bfloat16"), (8192, "bfloat16"), (4096, "float32")):
            n = full // 128 if self.tiny else full

            def matmul(compiled, n=n, dtype=dtype):
                a, b = (self.random(n, n, dtype=getattr(torch, dtype)) for _ in range(2))
                return lambda: a @ b
            self.add(f"matmul_{full}_{dtype}", f"{n} cubed", matmul)
        rows = 32 if self.tiny else 16384
        for layer, k, n in (("c_attn", 768, 2304), ("attn_c_proj", 768, 768), ("c_fc", 768, 3072),
                            ("mlp_c_proj", 3072, 768), ("lm_head", 768, 50304)):
            k, n = (k // 48, n // 48) if self.tiny else (k, n)
            for kind, sizes, form in (("forward", (rows, k, n), lambda a, b: a @ b.t()),
                                      ("input", (rows, n, k), lambda a, b: a @ b),
                                      ("weight", (n, rows, k), lambda a, b: a.t() @ b)):
                def product(compiled, kind=kind, k=k, n=n, form=form):
                    a = self.random(rows, k if kind == "forward" else n, dtype=torch.bfloat16)
                    b = self.random(rows if kind == "weight" else n, k, dtype=torch.bfloat16)
                    return lambda: form(a, b)
                self.add(f"gemm_{layer}_{kind}", " x ".join(map(str, sizes)) + " bf16", product)
        shape = (1, 2, 32, 16) if self.tiny else (16, 12, 1024, 64)

        def attention(backward):
            def make(compiled):
                q, k, v = (self.random(*shape, dtype=torch.bfloat16, grad=backward) for _ in range(3))
                g = self.random(*shape, dtype=torch.bfloat16)

                def call():
                    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                    if backward:
                        torch.autograd.grad(y, (q, k, v), g)
                return call
            return make
        what = f"[{', '.join(map(str, shape))}] bf16, causal"
        self.add("attention", what, attention(False))
        self.add("attention_backward", what + ", forward and backward", attention(True))
