"""The rows of run_reports.py that speak of more than PyTorch's operators: quantized weights, operators of others, collectives,
effects, and files that are no saved programs."""

import zipfile

from rows import Function, Rows, fail, not_made, refused, runs, saved, torch, without
from run_interop import safetensors, same
from torch import nn
from torch.export import Dim, export
from torch.nn import functional as F

ROWS = Rows()
row = ROWS.add
AUTO = Dim.AUTO


# ---- quantized weights --------------------------------------------------------------------------


def quantized(exg, configure, dtype=torch.float32, unwrapped=False, rtol=1e-3):
    try:
        import torchao.quantization as q
    except ImportError:
        return without("torchao")
    parts = {"table": nn.Embedding(50, 64), "a": nn.Linear(64, 128), "b": nn.Linear(128, 32, bias=False)}
    module = Function(lambda m, i: m.b(F.gelu(m.a(m.table(i)))), **parts).eval().to(dtype)
    configure(q, module)
    i = torch.randint(0, 50, (4, 5))
    program = export(module, (i,))
    if unwrapped:
        return runs(exg, program.run_decompositions({}), i, core=False)
    path = saved(exg, program)
    with torch.no_grad():
        expected = module(i)
    for file, options in ((path, {}), (path, {"mesh": "2", "place": "auto"}), (exg.convert(path, ".exg"), {})):
        torch.testing.assert_close(exg.run(file, {"i": i}, **options)[0]["0"], expected, rtol=rtol, atol=rtol)


@row("28", "pytorch/pytorch#137111, pytorch/ao#3099: torchao, int8 weights")
def _(exg):
    return quantized(exg, lambda q, m: q.quantize_(m, q.Int8WeightOnlyConfig()))


@row("29", "pytorch/ao#3099: torchao, 8da4w and an embedding of int8")
def _(exg):
    def configure(q, module):
        group = q.PerGroup(32)
        q.quantize_(module, q.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=group))
        q.quantize_(module, q.IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=group), lambda m, name: isinstance(m, nn.Embedding))

    return quantized(exg, configure)


@row("30", "pytorch/ao#3099: torchao, int8 dynamic")
def _(exg):
    return quantized(exg, lambda q, m: q.quantize_(m, q.Int8DynamicActivationInt8WeightConfig()))


@row("31", "pytorch/pytorch#129682: torchao, float8 weights")
def _(exg):
    return quantized(exg, lambda q, m: q.quantize_(m, q.Float8WeightOnlyConfig()), torch.bfloat16, rtol=4e-2)


@row("68", "torchao, int4 by group")
def _(exg):
    return quantized(exg, lambda q, m: q.quantize_(m, q.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=q.PerGroup(32))))


@row("32", "pytorch/pytorch#137111: int4 packed for a processor")
def _(exg):
    weight = torch.randint(0, 16, (32, 64), dtype=torch.int32)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(weight, 1)
    scales = torch.rand(2, 32, 2).bfloat16()
    held = {"w": packed, "s": scales}
    return runs(exg, Function(lambda m, x: torch.ops.aten._weight_int4pack_mm_for_cpu(x, m.w, 32, m.s), **held), torch.randn(4, 64).bfloat16(), meshes=("auto",))


@row("33", "pytorch/ao#3099: 8da4w, decomposed before it was saved")
def _(exg):
    def configure(q, module):
        q.quantize_(module, q.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=q.PerGroup(32)))

    return quantized(exg, configure, unwrapped=True)


# ---- operators of others ------------------------------------------------------------------------


def torchvision_operators():
    """torchvision's schemas and kernels after its documentation, where the package itself is not there."""
    if hasattr(torchvision_operators, "library"):
        return
    library = torchvision_operators.library = torch.library.Library("torchvision", "FRAGMENT")
    if hasattr(torch.ops.torchvision, "nms"):
        return
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

    def nms(boxes, scores, limit):
        order, kept = scores.sort(descending=True, stable=True)[1].tolist(), []
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        while order:
            first = order.pop(0)
            kept.append(first)
            size = (torch.minimum(boxes[first, 2:], boxes[order, 2:]) - torch.maximum(boxes[first, :2], boxes[order, :2])).clamp(min=0)
            both = size.prod(1)
            over = both / (area[first] + area[order] - both)
            order = [i for i, much in zip(order, over.tolist()) if much <= limit]
        return torch.tensor(kept, dtype=torch.int64)

    library.impl("nms", nms, "CPU")
    torch.library.register_fake("torchvision::nms")(lambda boxes, *_: boxes.new_empty([torch.library.get_ctx().new_dynamic_size()], dtype=torch.int64))
    library.define("roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor")

    def roi_align(x, rois, scale, height, width, count, aligned):
        results = []
        for image, *box in rois.tolist():
            x1, y1, x2, y2 = (side * scale - 0.5 * aligned for side in box)
            w, h = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1), max(y2 - y1, 1))
            ys = y1 + (torch.arange(height * count) + 0.5) * h / (height * count)
            xs = x1 + (torch.arange(width * count) + 0.5) * w / (width * count)
            grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij"), -1)
            rows, columns = x.shape[-2:]
            inside = (grid > -1).all(-1) & (grid[..., 0] < rows) & (grid[..., 1] < columns)
            at = torch.stack([grid[..., 1].clamp(0, columns - 1) / (columns - 1), grid[..., 0].clamp(0, rows - 1) / (rows - 1)], -1) * 2 - 1
            values = F.grid_sample(x[int(image)][None], at[None], align_corners=True) * inside
            results.append(F.avg_pool2d(values, count)[0])
        return torch.stack(results)

    library.impl("roi_align", roi_align, "CPU")
    torch.library.register_fake("torchvision::roi_align")(lambda x, rois, s, h, w, *_: x.new_empty(rois.shape[0], x.shape[1], h, w))


@row("34", "pytorch/pytorch#108805, #126674: boxes through torchvision.nms")
def _(exg):
    torchvision_operators()

    def forward(m, x):
        y = m.conv(x).permute(0, 2, 3, 1).reshape(-1, 6)
        middle = torch.stack(torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij"), -1).reshape(-1, 2) + 3 * y[:, :2]
        half = y[:, 2:4].exp() + 1
        boxes, scores = torch.cat([middle - half, middle + half], 1), y[:, 4].sigmoid()
        kept = torch.ops.torchvision.nms(boxes, scores, 0.5)
        return boxes[kept], scores[kept]

    return runs(exg, Function(forward, conv=nn.Conv2d(3, 6, 3, padding=1)), torch.randn(1, 3, 8, 8), torch.randn(1, 3, 8, 8))


@row("66", "torchvision.roi_align")
def _(exg):
    torchvision_operators()
    rois = torch.tensor([[0, 1.0, 2, 9, 8], [1, 0, 0, 15, 15], [0, 3, 3, 5, 12]])
    call = torch.ops.torchvision.roi_align
    return runs(exg, lambda x, rois: (call(x, rois, 0.5, 2, 3, 2, True), call(x, rois, 1.0, 3, 3, 2, False)), (torch.randn(2, 3, 9, 10), rois))


@row("35", "ultralytics/ultralytics#25616: a detector's last layer, its boxes chosen by score")
def _(exg):
    def forward(x):
        scores, index = x[..., 4:].flatten(1).topk(5)
        boxes = x[..., :4].gather(1, (index // 3)[..., None].expand(-1, -1, 4))
        kept = scores[0] > scores[0, 3]
        return boxes, index % 3, boxes[0][kept], scores[0][kept]

    return runs(exg, forward, torch.randn(1, 20, 7), torch.randn(1, 20, 7))


@row("36, 64", "pytorch/pytorch#152128, #140400, llvm/torch-mlir#4366: flex_attention with a score_mod")
def _(exg):
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(1, 2, 16, 16)

    def make():
        saved(exg, export(Function(lambda q: flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + (i - j))), (q,)))

    return not_made(make)


@row("37, 77", "stac-extensions/mlm#87, pytorch/pytorch#172004: two programs and other files in one archive")
def _(exg):
    from torch.export.pt2_archive._package import load_pt2, package_pt2

    before, model = Function(lambda x: (x.float() / 255 - 0.5) / 0.25), nn.Linear(4, 3)
    a, b = torch.randint(0, 255, (2, 4), dtype=torch.uint8), torch.randn(2, 4)
    path = exg.path(".pt2")
    extra = {"mlm.json": '{"name": "\u00e9"}', "notes/readme.txt": "hello"}
    package_pt2(str(path), exported_programs={"transform": export(before, (a,)), "model": export(model, (b,))}, extra_files=extra)
    exg.command("repack", path, exg.path(".pt2"))
    for other in (exg.convert(path, ".pt2"), exg.folder / f"{exg.calls - 1}.pt2"):
        loaded = load_pt2(str(other))
        if loaded.exported_programs.keys() != {"transform", "model"} or loaded.extra_files.keys() != extra.keys():
            fail(f"{loaded.exported_programs.keys()} {loaded.extra_files.keys()} are left")
        if not torch.equal(loaded.exported_programs["transform"].module()(a), before(a)):
            fail("the transform is another")
    if not torch.equal(exg.run(path, {"x": a}, program="transform")[0]["0"], before(a)):
        fail("the transform does not run")
    return "runs"


class Operators:
    """Operators of a person's own."""

    @staticmethod
    def add(name, function, fake=None, mutates=()):
        made = torch.library.custom_op(f"exg_rows::{name}", mutates_args=mutates)(function)
        if fake:
            made.register_fake(fake)
        return made


def scale_(x: torch.Tensor, s: float) -> None:
    x.mul_(s)


def gate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sigmoid() * y


def log(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


SCALE, GATE = Operators.add("scale_", scale_, lambda x, s: None, {"x"}), Operators.add("gate", gate, lambda x, y: torch.empty_like(x))
LOG = Operators.add("log", log, lambda x: torch.empty_like(x))
COMPOSITE = torch.library.Library("exg_rows", "FRAGMENT")
COMPOSITE.define("twice(Tensor x) -> Tensor")
COMPOSITE.impl("twice", lambda x: x * 2 + 1, "CompositeImplicitAutograd")


@row("38", "pytorch/pytorch#138221, lutzroeder/netron#1510: a custom operator that writes, decomposed")
def _(exg):
    def forward(x):
        y = x.clone()
        SCALE(y, 3.0)
        return GATE(x, y)

    program = export(Function(forward), (torch.randn(3),)).run_decompositions({})
    path = saved(exg, program)
    exg.command("verify", path)
    return refused(exg, path, "OPR-003", "not a PyTorch operator", "exg_rows.scale_", "run_decompositions", "--ops")


@row("65", "pytorch/pytorch#138221: a custom operator that PyTorch can decompose, not decomposed")
def _(exg):
    module, x = Function(lambda x: torch.ops.exg_rows.twice(x)), torch.randn(3)
    program = export(module, (x,))
    if "exg_rows" in str(program.graph):
        refused(exg, saved(exg, program), "OPR-003", "exg_rows.twice", "run_decompositions")
    return runs(exg, program.run_decompositions(), x, core=False)


@row("75", "a custom operator that is called to tell of something")
def _(exg):
    def forward(x):
        LOG(x)
        return x + 1

    return runs(exg, forward, torch.randn(3))


# ---- collectives, effects and the rest ----------------------------------------------------------


def as_rank(exg, forward, make, expected, ranks=2):
    """A program of each rank, exported with a group of none but itself, run by exg's ranks."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    given, wanted = [], []
    for rank in range(ranks):
        dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
        try:
            x = make(rank)
            torch.export.save(export(forward, (x,)), exg.folder / f"r.{rank}.pt2")
        finally:
            dist.destroy_process_group()
        given.append(x)
    for rank, results in enumerate(expected(given)):
        safetensors.torch.save_file({"x": given[rank]}, exg.folder / f"in.{rank}.safetensors")
        safetensors.torch.save_file({str(i): one.contiguous().clone() for i, one in enumerate(results)}, exg.folder / f"want.{rank}.safetensors")
        wanted.append(results)
    files = [f"--{word}={exg.folder}/{stem}.{{rank}}.safetensors" for word, stem in (("input", "in"), ("expect", "want"))]
    exg.command("run", f"--rank-file={exg.folder}/r.{{rank}}.pt2", "--mesh", ranks, *files)
    exg.command("verify", exg.folder / "r.0.pt2", "--mesh", ranks)


C10D = torch.ops._c10d_functional


@row("59", "pytorch/pytorch#147172, #184229: a rank's program, all_reduce and all_gather in it")
def _(exg):
    weight = torch.randn(8, 8)

    def forward(x):
        y = C10D.wait_tensor(C10D.all_reduce(torch.relu(x @ weight), "sum", "0"))
        return y, C10D.wait_tensor(C10D.all_gather_into_tensor(y + x, 2, "0"))

    def expected(xs):
        total = sum(torch.relu(x @ weight) for x in xs)
        return [(total, torch.cat([total + x for x in xs]))] * 2

    return as_rank(exg, Function(forward), lambda rank: torch.randn(4, 8), expected)


@row("67", "all_to_all_single and reduce_scatter_tensor")
def _(exg):
    def forward(x):
        y = C10D.wait_tensor(C10D.all_to_all_single(x, [2, 2], [2, 2], "0"))
        return y, C10D.wait_tensor(C10D.reduce_scatter_tensor(x * 2, "sum", 2, "0"))

    def expected(xs):
        return [(torch.cat([x[2 * r : 2 * r + 2] for x in xs]), 2 * sum(x[2 * r : 2 * r + 2] for x in xs)) for r in range(2)]

    return as_rank(exg, Function(forward), lambda rank: torch.randn(4, 3), expected)


@row("60", "pytorch/pytorch#174467, #92130: maxvit of timm")
def _(exg):
    try:
        import timm
    except ImportError:
        return without("timm")
    model = timm.create_model("maxvit_rmlp_pico_rw_256", num_classes=10, img_size=64).eval().to(memory_format=torch.channels_last)
    return runs(exg, model, torch.randn(2, 3, 64, 64), torch.randn(3, 3, 64, 64), shapes=({0: AUTO},), core=False, meshes=("auto",))


@row("61", "activation checkpoints")
def _(exg):
    def forward(m, x):
        return torch.utils.checkpoint.checkpoint(m.a, x, use_reentrant=True)

    def make():
        program = torch.export.export(Function(forward, a=nn.Linear(3, 3)).train(), (torch.randn(2, 3, requires_grad=True),), strict=True)
        saved(exg, program)

    return not_made(make)


@row("62", "aten._print and _assert_async, with tokens")
def _(exg):
    def forward(x):
        torch._assert_async(x.sum() < 1e9, "too large")
        torch.ops.aten._print("here")
        return x + 1

    return runs(exg, forward, torch.randn(3))


@row("63", "quantized.linear with packed weights")
def _(exg):
    packed = torch.ops.quantized.linear_prepack(torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8), None)
    path = saved(exg, export(Function(lambda x: torch.ops.quantized.linear_dynamic(x, packed)), (torch.randn(2, 4),)))
    exg.convert(exg.convert(path, ".exg"), ".pt2")
    return refused(exg, path, "OPR-003", "torch.ops.quantized.linear_dynamic")


@row("69", "pytorch/pytorch#151094, #170264: ranges and sizes made of sizes; what does not fit is refused by input and dim")
def _(exg):
    n = Dim("n", min=2, max=10)

    def forward(x, y):
        torch._check(y.sum().item() > 0)
        return x.reshape(-1, 2).sum(0), y * x.shape[1]

    module = Function(forward)
    calls = [(torch.rand(3, 2 * k), torch.rand(k + 1)) for k in (3, 5)]
    runs(exg, module, *calls, shapes=({1: 2 * n}, {0: n + 1}))
    path = saved(exg, export(module, calls[0], dynamic_shapes=({1: 2 * n}, {0: n + 1})))

    def wrong(code, *words, **inputs):
        given = exg.path(".safetensors")
        safetensors.torch.save_file(inputs, given)
        return refused(exg, path, *words, code=code, more=("--input", given))

    wrong(2, "'x'", "size 7 in dim 1, not 6", x=torch.rand(3, 7), y=torch.rand(4))
    wrong(2, "x", "dim 0", x=torch.rand(4, 6), y=torch.rand(4))
    wrong(2, "y", x=torch.rand(3, 6), y=torch.rand(5))
    wrong(2, "y", x=torch.rand(3, 6))
    wrong(2, "other", x=torch.rand(3, 6), y=torch.rand(4), other=torch.rand(1))
    wrong(2, "x", "float64", x=torch.rand(3, 6).double(), y=torch.rand(4))
    wrong(4, "RUN-006", "the program asserts", x=torch.rand(3, 6), y=-torch.rand(4))
    return wrong(2, "x", "dim 1", "4 to 20", x=torch.rand(3, 2), y=torch.rand(2))


@row("72", "strides and offsets as numbers")
def _(exg):
    def forward(x):
        return x.as_strided((x.shape[0], 2), (x.stride(0), 1), 1), x.stride(0), x.storage_offset()

    return runs(exg, forward, torch.randn(4, 5), torch.randn(6, 7), shapes=({0: AUTO, 1: AUTO},))


# ---- files that are no saved programs -----------------------------------------------------------


@row("big", "pytorch/pytorch#135991, #167623: records with sizes of 64 bits, as those past 4 GB have")
def _(exg):
    source, path, x = saved(exg, export(nn.Linear(6, 4), (torch.rand(3, 6),))), exg.path(".pt2"), torch.rand(3, 6)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as made:
        for name in old.namelist():
            with made.open(name, "w", force_zip64=True) as record:
                record.write(old.read(name))
    want = {"0": torch.export.load(path).module()(x).detach()}
    exg.command("verify", path, "--data")
    same(exg.run(path, {"input": x})[0], want)
    same(exg.run(exg.convert(path, ".exg"), {"input": x})[0], want)


@row("edge", "pytorch/executorch#2988, #5265: ExecuTorch's edge dialect")
def _(exg):
    path, edge = saved(exg, export(Function(lambda x: (x + 1).relu()), (torch.randn(3),))), exg.path(".pt2")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(edge, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b"torch.ops.aten.", b"executorch.exir.dialects.edge._ops.aten."))
    return refused(exg, edge, "edge dialect", code=4)


def other_files(exg):
    module, x = nn.Linear(3, 2).eval(), torch.randn(1, 3)
    torch.jit.save(torch.jit.trace(module, x), exg.folder / "script.pt")
    torch.save(module.state_dict(), exg.folder / "state.pt")
    torch.save(module, exg.folder / "module.pt")
    (exg.folder / "model.onnx").write_bytes(b"\x08\x0a\x12\x07pytorch\x1a\x062.13.0:\x00")
    (exg.folder / "model.pte").write_bytes(b"\x30\x00\x00\x00ET12" + b"\x00" * 64)
    with zipfile.ZipFile(exg.folder / "aoti.pt2", "w") as archive:
        for name, data in (("archive_format", "pt2"), ("version", "0"), ("byteorder", "little"), ("data/aotinductor/model/m.wrapper.so", "x")):
            archive.writestr("aoti/" + name, data)
    return {"script.pt": "TorchScript", "state.pt": "weights", "module.pt": "", "model.onnx": "ONNX", "model.pte": "ExecuTorch", "aoti.pt2": "AOTInductor"}


@row("other", "pytorch/pytorch#172004, lutzroeder/netron#1442: files of other kinds, given as programs")
def _(exg):
    sentences = []
    for name, word in other_files(exg).items():
        for code in (2, 4, 5):
            try:
                sentences.append(refused(exg, exg.folder / name, word, code=code)[1])
                break
            except Exception as error:
                said = error
        else:
            raise said
    return "is refused", sentences[0]
