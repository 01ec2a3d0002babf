/* encode.hpp - the model to FlatBuffers; part of flat.cpp.
 *
 * The builder works in address space reserved for the largest metadata there can be, so
 * it never grows and never asks for memory; lists and shared strings lie in an arena.
 * Faults stick: after one, everything made is empty and the result is dropped.
 */
namespace
{

constexpr size_t reserve_bytes = (size_t{1} << 31) - (size_t{1} << 20);
constexpr size_t metadata_bytes_max = reserve_bytes - (size_t{64} << 20); /* room for one vtable */

/* Hands out the one reservation; its owner unmaps it. */
class lent_memory final : public flatbuffers::Allocator
{
  public:
    explicit lent_memory(void *base) : base_(static_cast<uint8_t *>(base))
    {
    }
    uint8_t *allocate(size_t) override
    {
        return base_;
    }
    void deallocate(uint8_t *, size_t) override
    {
    }

  private:
    uint8_t *base_;
};

template <typename T> using offset = flatbuffers::Offset<T>;
template <typename T> using offsets = flatbuffers::Offset<flatbuffers::Vector<offset<T>>>;
using text_offset = offset<flatbuffers::String>;

flat::DType dtype(exg_dtype d)
{
    return static_cast<flat::DType>(exg_dtype_export_number(d));
}

class encoder
{
  public:
    encoder(void *base, exg_arena *scratch)
        : memory_(base), fbb_(reserve_bytes, &memory_), scratch_(scratch)
    {
        exg_map_init(&strings_, scratch);
    }

    bool failed() const
    {
        return no_memory_ || too_large_ || no_text_;
    }
    bool no_text() const
    {
        return no_text_;
    }
    bool too_large() const
    {
        return too_large_;
    }
    flatbuffers::FlatBufferBuilder &builder()
    {
        return fbb_;
    }

    offset<flat::Program> program(const exg_program *p, const uint32_t *storage_map,
                                  const exg_stored *stored, uint32_t stored_count);

  private:
    /* ---- building blocks ---- */

    bool room(size_t bytes)
    {
        too_large_ =
            too_large_ || bytes > metadata_bytes_max || fbb_.GetSize() > metadata_bytes_max - bytes;
        return !failed();
    }

    /* Each text is stored once. */
    text_offset must(const char *string)
    {
        uint32_t at;

        string = string == nullptr ? "" : string;
        at = exg_map_find(&strings_, string);
        if (at != EXG_MAP_NONE) {
            return text_offset(at);
        }
        if (!room(std::strlen(string))) {
            string = "";
        }
        no_text_ = no_text_ || !exg_text_is_utf8(string, std::strlen(string));
        text_offset made = fbb_.CreateString(string);
        no_memory_ = no_memory_ || !exg_map_put(&strings_, string, made.o);
        return made;
    }
    text_offset may(const char *string)
    {
        return string == nullptr ? text_offset(0) : must(string);
    }

    template <typename T> offset<flatbuffers::Vector<T>> numbers(const T *items, size_t count)
    {
        return fbb_.CreateVector(items, room(count * sizeof(T)) ? count : 0);
    }

    /* make(i) for all of them, then the vector. */
    template <typename T, typename F> offsets<T> always(uint32_t count, F make)
    {
        auto *made = static_cast<offset<T> *>(
            exg_arena_alloc(scratch_, count, sizeof(flatbuffers::uoffset_t)));

        no_memory_ = no_memory_ || made == nullptr;
        for (uint32_t i = 0; !failed() && i < count; i++) {
            made[i] = make(i);
        }
        return fbb_.CreateVector(made, room(count * sizeof(*made)) ? count : 0);
    }
    /* The same, and no vector for an empty list. */
    template <typename T, typename F> offsets<T> list(uint32_t count, F make)
    {
        return count == 0 ? offsets<T>(0) : always<T>(count, make);
    }
    offsets<flatbuffers::String> texts(const char *const *strings, uint32_t count)
    {
        return always<flatbuffers::String>(count, [&](uint32_t i) { return must(strings[i]); });
    }
    offsets<flat::StringPair> pairs(const exg_string_map &map)
    {
        return list<flat::StringPair>(map.count, [&](uint32_t i) {
            auto key = must(map.items[i].key);
            return flat::CreateStringPair(fbb_, key, must(map.items[i].value));
        });
    }

    /* ---- tensors, arguments, graphs ---- */

    offset<flat::Device> device(const exg_device &d)
    {
        auto type = must(d.type);

        return flat::CreateDevice(fbb_, type,
                                  d.index == -1 ? flatbuffers::nullopt
                                                : flatbuffers::Optional<int64_t>(d.index));
    }
    offset<flatbuffers::Vector<int64_t>> places(const exg_sym_int *syms, uint32_t rank);
    offset<flat::TensorMeta> meta(const exg_tensor_meta *m);
    offset<flat::Value> value(const exg_value &v);
    offset<flat::SymArgument> sym(const exg_sym_argument &s, exg_model_type type);
    offset<flat::Values> values(const exg_value_list &l)
    {
        return flat::CreateValues(fbb_, numbers(l.items, l.count));
    }
    offset<flat::Ints> ints(const exg_int_list &l)
    {
        return flat::CreateInts(fbb_, numbers(l.items, l.count));
    }
    offset<flat::Floats> floats(const exg_float_list &l)
    {
        return flat::CreateFloats(fbb_, numbers(l.items, l.count));
    }
    struct content {
        flat::ArgumentValue type;
        offset<void> value;
    };
    content content_of(const exg_argument &a);

    /* ---- what an argument holds: a type of model.def in a form ---- */

    auto NOTHING_ONE(const exg_argument &)
    {
        return flat::CreateNothing(fbb_);
    }
    auto VALUE_ONE(const exg_argument &a)
    {
        return flat::CreateValueRef(fbb_, a.as_tensor);
    }
    auto VALUE_LIST(const exg_argument &a)
    {
        return values({a.as_tensors, a.count});
    }
    auto OPTIONAL_VALUE_ONE(const exg_argument &a)
    {
        return flat::CreateOptionalValueRef(
            fbb_, a.as_tensor == EXG_NO_VALUE ? flatbuffers::nullopt
                                              : flatbuffers::Optional<uint32_t>(a.as_tensor));
    }
    auto OPTIONAL_VALUE_LIST(const exg_argument &a)
    {
        return flat::CreateOptionalValues(fbb_, numbers(a.as_tensors, a.count));
    }
    auto INT_ONE(const exg_argument &a)
    {
        return flat::CreateInt(fbb_, a.as_int);
    }
    auto INT_LIST(const exg_argument &a)
    {
        return ints({a.as_ints, a.count});
    }
    auto FLOAT_ONE(const exg_argument &a)
    {
        return flat::CreateFloat(fbb_, a.as_float);
    }
    auto FLOAT_LIST(const exg_argument &a)
    {
        return floats({a.as_floats, a.count});
    }
    auto BOOL_ONE(const exg_argument &a)
    {
        return flat::CreateBool(fbb_, a.as_bool);
    }
    auto BOOL_LIST(const exg_argument &a)
    {
        static_assert(sizeof(bool) == 1, "a bool is a byte");
        return flat::CreateBools(fbb_,
                                 numbers(reinterpret_cast<const uint8_t *>(a.as_bools), a.count));
    }
    auto TEXT_ONE(const exg_argument &a)
    {
        return flat::CreateText(fbb_, must(a.as_string));
    }
    auto TEXT_LIST(const exg_argument &a)
    {
        return flat::CreateTexts(fbb_, texts(a.as_strings, a.count));
    }
    auto TARGET_ONE(const exg_argument &a)
    {
        return TEXT_ONE(a);
    }
    auto SYM_INT_ARGUMENT_ONE(const exg_argument &a)
    {
        return sym(a.as_sym, EXG_MODEL_SYM_INT_ARGUMENT);
    }
    auto SYM_INT_ARGUMENT_LIST(const exg_argument &a)
    {
        return syms(a, EXG_MODEL_SYM_INT_ARGUMENT);
    }
    auto SYM_FLOAT_ARGUMENT_ONE(const exg_argument &a)
    {
        return sym(a.as_sym, EXG_MODEL_SYM_FLOAT_ARGUMENT);
    }
    auto SYM_FLOAT_ARGUMENT_LIST(const exg_argument &a)
    {
        return syms(a, EXG_MODEL_SYM_FLOAT_ARGUMENT);
    }
    auto SYM_BOOL_ARGUMENT_ONE(const exg_argument &a)
    {
        return sym(a.as_sym, EXG_MODEL_SYM_BOOL_ARGUMENT);
    }
    auto SYM_BOOL_ARGUMENT_LIST(const exg_argument &a)
    {
        return syms(a, EXG_MODEL_SYM_BOOL_ARGUMENT);
    }
    auto DTYPE_ONE(const exg_argument &a)
    {
        return flat::CreateScalarType(fbb_, dtype(a.as_scalar_type));
    }
    auto MEMORY_FORMAT_ONE(const exg_argument &a)
    {
        return flat::CreateMemoryFormatArgument(
            fbb_, static_cast<flat::MemoryFormat>(a.as_memory_format));
    }
    auto LAYOUT_ONE(const exg_argument &a)
    {
        return flat::CreateLayoutArgument(fbb_, static_cast<flat::Layout>(a.as_layout));
    }
    auto DEVICE_ONE(const exg_argument &a)
    {
        return device(a.as_device);
    }
    auto COMPLEX_ONE(const exg_argument &a)
    {
        return flat::CreateComplex(fbb_, a.as_complex.real, a.as_complex.imag);
    }
    auto GRAPH_ARGUMENT_POINTER(const exg_argument &a)
    {
        auto name = must(a.as_graph->name);
        auto body = graph(a.as_graph->graph);
        auto metadata = pairs(a.as_graph->metadata);
        return flat::CreateGraphArgument(fbb_, name, body, metadata, a.as_graph->lifted_count);
    }
    auto CUSTOM_OBJ_POINTER(const exg_argument &a)
    {
        auto name = must(a.as_custom_obj->name);
        return flat::CreateCustomObj(fbb_, name, must(a.as_custom_obj->class_fqn));
    }
    auto VALUE_LIST_LIST(const exg_argument &a)
    {
        return flat::CreateValueLists(fbb_, always<flat::Values>(a.count, [&](uint32_t i) {
                                          return values(a.as_nested_tensors[i]);
                                      }));
    }
    auto INT_LIST_LIST(const exg_argument &a)
    {
        return flat::CreateIntLists(
            fbb_, always<flat::Ints>(a.count, [&](uint32_t i) { return ints(a.as_int_lists[i]); }));
    }
    auto FLOAT_LIST_LIST(const exg_argument &a)
    {
        return flat::CreateFloatLists(fbb_, always<flat::Floats>(a.count, [&](uint32_t i) {
                                          return floats(a.as_float_lists[i]);
                                      }));
    }
    auto STRING_ARGUMENT_MAP(const exg_argument &a)
    {
        return flat::CreateStringArguments(
            fbb_, always<flat::StringArgument>(a.count, [&](uint32_t i) {
                auto key = must(a.as_string_to_argument[i].key);
                content c = content_of(a.as_string_to_argument[i].argument);
                return flat::CreateStringArgument(fbb_, key, c.type, c.value);
            }));
    }
    offset<flat::SymArguments> syms(const exg_argument &a, exg_model_type type)
    {
        return flat::CreateSymArguments(fbb_, always<flat::SymArgument>(a.count, [&](uint32_t i) {
                                            return sym(a.as_syms[i], type);
                                        }));
    }
    offset<flat::Argument> argument(const exg_argument &a)
    {
        content c = content_of(a);

        return flat::CreateArgument(fbb_, c.type, c.value);
    }
    offsets<flat::Argument> arguments(const exg_argument *items, uint32_t count)
    {
        return list<flat::Argument>(count, [&](uint32_t i) { return argument(items[i]); });
    }
    offset<flat::NamedArgument> named(const exg_named_argument &n);
    offset<flat::Node> node(const exg_node &n);
    offset<flat::Graph> graph(const exg_graph *g);

    /* ---- signature and tables ---- */

    offset<flat::SignatureArgument> leaf(const exg_signature_argument &a);
    offset<flat::Signature> signature(const exg_signature &s);
    offset<flat::ModuleCall> module_call(const exg_module_call &c);
    offset<flat::SampleInput> sample(const exg_sample_input &s, const uint32_t *storage_map);
    offset<flat::Weight> weight(const exg_weight &w, const uint32_t *storage_map);
    offset<flat::Storage> storage(const exg_stored &s);

    lent_memory memory_;
    flatbuffers::FlatBufferBuilder fbb_;
    exg_arena *scratch_;
    exg_map strings_;
    bool no_memory_ = false;
    bool too_large_ = false;
    bool no_text_ = false; /* bytes that are not UTF-8 */
};

/* ---- tensors ------------------------------------------------------------------------------ */

offset<flatbuffers::Vector<int64_t>> encoder::places(const exg_sym_int *syms, uint32_t rank)
{
    auto *held = static_cast<int64_t *>(exg_arena_alloc(scratch_, rank, sizeof(int64_t)));

    if (rank == 0) {
        return 0;
    }
    no_memory_ = no_memory_ || held == nullptr;
    for (uint32_t i = 0; held != nullptr && i < rank; i++) {
        held[i] = syms[i].value;
    }
    return numbers(held, held == nullptr ? 0 : rank);
}

offset<flat::TensorMeta> encoder::meta(const exg_tensor_meta *m)
{
    if (m == nullptr) {
        return 0;
    }
    auto at = [m](uint32_t place) -> const exg_sym_int & {
        return place < m->rank       ? m->sizes[place]
               : place < 2 * m->rank ? m->strides[place - m->rank]
                                     : m->storage_offset;
    };
    auto *symbolic = static_cast<uint32_t *>(
        exg_arena_alloc(scratch_, 2 * size_t{m->rank} + 1, sizeof(uint32_t)));
    uint32_t count = 0;

    no_memory_ = no_memory_ || symbolic == nullptr;
    for (uint32_t place = 0; !failed() && place <= 2 * m->rank; place++) {
        if (at(place).expr != nullptr || at(place).has_hint) {
            symbolic[count++] = place;
        }
    }
    auto dimensions = list<flat::Dimension>(count, [&](uint32_t i) {
        auto expr = may(at(symbolic[i]).expr);
        return flat::CreateDimension(fbb_, symbolic[i], expr, at(symbolic[i]).has_hint);
    });
    auto sizes = places(m->sizes, m->rank);
    auto strides = places(m->strides, m->rank);
    auto where = device(m->device);

    return flat::CreateTensorMeta(fbb_, dtype(m->dtype), static_cast<flat::Layout>(m->layout),
                                  m->requires_grad, sizes, strides, m->storage_offset.value, where,
                                  dimensions);
}

offset<flat::Value> encoder::value(const exg_value &v)
{
    auto name = must(v.name);
    auto tensor = meta(v.tensor);
    auto custom = may(v.custom_class);
    offset<flat::SymInt> sym_int;
    offset<flat::SymFloat> sym_float;
    offset<flat::SymBool> sym_bool;

    if (v.sym_int != nullptr) {
        auto expr = may(v.sym_int->expr);
        sym_int = flat::CreateSymInt(fbb_, expr, v.sym_int->value, v.sym_int->has_hint);
    }
    if (v.sym_float != nullptr) {
        auto expr = may(v.sym_float->expr);
        sym_float = flat::CreateSymFloat(fbb_, expr, v.sym_float->value, v.sym_float->has_hint);
    }
    if (v.sym_bool != nullptr) {
        auto expr = may(v.sym_bool->expr);
        sym_bool = flat::CreateSymBool(fbb_, expr, v.sym_bool->value, v.sym_bool->has_hint);
    }
    return flat::CreateValue(fbb_, name, tensor, sym_int, sym_float, sym_bool, custom);
}

/* ---- arguments ---------------------------------------------------------------------------- */

offset<flat::SymArgument> encoder::sym(const exg_sym_argument &s, exg_model_type type)
{
    flat::SymArgumentBuilder made(fbb_);

    if (s.value != EXG_NO_VALUE) {
        made.add_value(s.value);
    } else if (type == EXG_MODEL_SYM_FLOAT_ARGUMENT) {
        made.add_as_float(s.as_float);
    } else if (type == EXG_MODEL_SYM_BOOL_ARGUMENT) {
        made.add_as_bool(s.as_bool);
    } else {
        made.add_as_int(s.as_int);
    }
    return made.Finish();
}

encoder::content encoder::content_of(const exg_argument &a)
{
    switch (a.kind) {
#define EXG_ARGUMENT(id, tag, early, number, type, form)                                           \
    case EXG_ARGUMENT_##id:                                                                        \
        return {flat::ArgumentValue_##tag, type##_##form(a).Union()};
#include <exg/argument.def>
#undef EXG_ARGUMENT
    default:
        return {flat::ArgumentValue_as_none, NOTHING_ONE(a).Union()};
    }
}

/* ---- graph -------------------------------------------------------------------------------- */

flatbuffers::Optional<bool> maybe(exg_tristate t)
{
    return t == EXG_UNSET ? flatbuffers::nullopt : flatbuffers::Optional<bool>(t == EXG_TRUE);
}

offset<flat::NamedArgument> encoder::named(const exg_named_argument &n)
{
    auto name = must(n.name);
    content c = content_of(n.arg);

    return flat::CreateNamedArgument(fbb_, name, static_cast<flat::Passing>(n.kind), c.type,
                                     c.value);
}

offset<flat::Node> encoder::node(const exg_node &n)
{
    auto target = must(n.target);
    auto name = may(n.name);
    auto inputs =
        list<flat::NamedArgument>(n.input_count, [&](uint32_t i) { return named(n.inputs[i]); });
    auto outputs = arguments(n.outputs, n.output_count);
    auto metadata = pairs(n.metadata);

    return flat::CreateNode(fbb_, target, name, inputs, outputs, metadata,
                            maybe(n.is_hop_single_tensor_return));
}

offset<flat::Graph> encoder::graph(const exg_graph *g)
{
    auto inputs = arguments(g->inputs, g->input_count);
    auto outputs = arguments(g->outputs, g->output_count);
    auto nodes = list<flat::Node>(g->node_count, [&](uint32_t i) { return node(g->nodes[i]); });
    auto table = list<flat::Value>(g->value_count, [&](uint32_t i) { return value(g->values[i]); });

    return flat::CreateGraph(fbb_, inputs, outputs, nodes, table, g->is_single_tensor_return);
}

/* ---- signature and tables ----------------------------------------------------------------- */

flat::LeafKind leaf_kind(exg_argument_kind kind)
{
    switch (kind) {
    case EXG_ARGUMENT_TENSOR:
        return flat::LeafKind_TENSOR;
    case EXG_ARGUMENT_SYM_INT:
        return flat::LeafKind_SYM_INT;
    case EXG_ARGUMENT_SYM_FLOAT:
        return flat::LeafKind_SYM_FLOAT;
    case EXG_ARGUMENT_SYM_BOOL:
        return flat::LeafKind_SYM_BOOL;
    case EXG_ARGUMENT_CUSTOM_OBJ:
        return flat::LeafKind_CUSTOM_OBJ;
    case EXG_ARGUMENT_INT:
        return flat::LeafKind_INT;
    case EXG_ARGUMENT_FLOAT:
        return flat::LeafKind_FLOAT;
    case EXG_ARGUMENT_STRING:
        return flat::LeafKind_STRING;
    case EXG_ARGUMENT_BOOL:
        return flat::LeafKind_BOOL;
    default: /* nothing else is a leaf */
        return flat::LeafKind_NONE;
    }
}

/* The constant of a leaf, into a builder whose strings were made before. */
template <typename Builder, typename Leaf>
void add_constant(Builder &made, const Leaf &leaf, text_offset string)
{
    if (leaf.kind == EXG_ARGUMENT_INT) {
        made.add_as_int(leaf.as_int);
    } else if (leaf.kind == EXG_ARGUMENT_FLOAT) {
        made.add_as_float(leaf.as_float);
    } else if (leaf.kind == EXG_ARGUMENT_BOOL) {
        made.add_as_bool(leaf.as_bool);
    } else if (!string.IsNull()) {
        made.add_as_string(string);
    }
}

template <typename Leaf> const char *string_of(const Leaf &leaf)
{
    return leaf.kind == EXG_ARGUMENT_STRING || leaf.kind == EXG_ARGUMENT_CUSTOM_OBJ ? leaf.as_string
                                                                                    : nullptr;
}

offset<flat::SignatureArgument> encoder::leaf(const exg_signature_argument &a)
{
    auto name = must(a.name);
    auto string = may(string_of(a));
    flat::SignatureArgumentBuilder made(fbb_);

    made.add_kind(leaf_kind(a.kind));
    made.add_is_token(a.is_token);
    made.add_name(name);
    add_constant(made, a, string);
    return made.Finish();
}

offset<flat::Signature> encoder::signature(const exg_signature &s)
{
    auto inputs = list<flat::InputSpec>(s.input_count, [&](uint32_t i) {
        const exg_input_spec &spec = s.inputs[i];
        auto arg = leaf(spec.arg);
        auto target = may(spec.target);
        return flat::CreateInputSpec(fbb_, static_cast<flat::InputKind>(spec.kind), arg, target,
                                     maybe(spec.persistent), spec.implicit);
    });
    auto outputs = list<flat::OutputSpec>(s.output_count, [&](uint32_t i) {
        const exg_output_spec &spec = s.outputs[i];
        auto arg = leaf(spec.arg);
        auto target = may(spec.target);
        return flat::CreateOutputSpec(fbb_, static_cast<flat::OutputKind>(spec.kind), arg, target);
    });

    return flat::CreateSignature(fbb_, inputs, outputs, may(s.assertion_dep_token),
                                 s.assertion_dep_index);
}

offset<flat::ModuleCall> encoder::module_call(const exg_module_call &c)
{
    auto fqn = must(c.fqn);
    offset<flat::ModuleCallSignature> made;

    if (c.has_signature) {
        auto inputs = arguments(c.inputs, c.input_count);
        auto outputs = arguments(c.outputs, c.output_count);
        auto in_spec = may(c.in_spec);
        auto out_spec = may(c.out_spec);
        auto names = c.forward_arg_names == nullptr
                         ? offsets<flatbuffers::String>(0)
                         : texts(c.forward_arg_names, c.forward_arg_name_count);
        made = flat::CreateModuleCallSignature(fbb_, inputs, outputs, in_spec, out_spec, names);
    }
    return flat::CreateModuleCall(fbb_, fqn, made);
}

offset<flat::SampleInput> encoder::sample(const exg_sample_input &s, const uint32_t *storage_map)
{
    auto keyword = may(s.keyword);
    auto tensor = meta(s.meta);
    auto string = may(string_of(s));
    flat::SampleInputBuilder made(fbb_);

    made.add_keyword(keyword);
    made.add_kind(leaf_kind(s.kind));
    made.add_meta(tensor);
    if (s.kind == EXG_ARGUMENT_TENSOR) {
        made.add_storage(storage_map[s.storage]);
    }
    add_constant(made, s, string);
    return made.Finish();
}

offset<flat::Weight> encoder::weight(const exg_weight &w, const uint32_t *storage_map)
{
    auto fqn = must(w.fqn);
    auto tensor = meta(w.meta);
    auto encoding = may(w.encoding);

    return flat::CreateWeight(fbb_, fqn,
                              w.table == EXG_TABLE_CONSTANTS ? flat::WeightTable_CONSTANTS
                                                             : flat::WeightTable_STATE,
                              w.is_param, w.use_pickle, tensor, storage_map[w.storage], encoding);
}

offset<flat::Storage> encoder::storage(const exg_stored &s)
{
    const flat::Place nowhere;
    auto location = may(s.location);
    auto declared = may(s.declared_checksum);
    offset<flatbuffers::Vector<const flat::Frame *>> frames;

    if (s.element_bytes != 0) {
        flat::Frame *items = nullptr;
        bool fits = room(size_t{s.frame_count} * sizeof(flat::Frame));

        frames = fbb_.CreateUninitializedVectorOfStructs(fits ? s.frame_count : 0, &items);
        std::memset(static_cast<void *>(items), 0, fits ? s.frame_count * sizeof(flat::Frame) : 0);
    }
    return flat::CreateStorage(
        fbb_, s.length,
        s.byte_order == EXG_BIG_ENDIAN ? flat::ByteOrder_BIG : flat::ByteOrder_LITTLE,
        static_cast<uint8_t>(s.element_bytes), location, &nowhere, frames, declared);
}

offset<flat::Program> encoder::program(const exg_program *p, const uint32_t *storage_map,
                                       const exg_stored *stored, uint32_t stored_count)
{
    const exg_weights *w = p->weights;
    const flat::Facts nothing;
    auto name = must(p->name);
    auto torch = may(p->torch_version);
    auto top = graph(p->graph);
    auto spec = signature(p->signature);
    auto calls = list<flat::ModuleCall>(
        p->module_call_count, [&](uint32_t i) { return module_call(p->module_calls[i]); });
    auto metadata = pairs(p->metadata);
    auto tuples = list<flat::NamedTuple>(p->named_tuple_count, [&](uint32_t i) {
        const exg_named_tuple &t = p->named_tuples[i];
        auto type = must(t.type);
        return flat::CreateNamedTuple(fbb_, type, texts(t.field_names, t.field_count));
    });
    auto opsets = list<flat::Opset>(p->opset_count, [&](uint32_t i) {
        auto space = must(p->opsets[i].name_space);
        return flat::CreateOpset(fbb_, space, p->opsets[i].version);
    });
    auto ranges = list<flat::RangeConstraint>(p->range_constraint_count, [&](uint32_t i) {
        const exg_range_constraint &r = p->range_constraints[i];
        auto symbol = must(r.symbol);
        auto bound = [](bool has, int64_t value) {
            return has ? flatbuffers::Optional<int64_t>(value) : flatbuffers::nullopt;
        };
        return flat::CreateRangeConstraint(fbb_, symbol, bound(r.has_min, r.min_val),
                                           bound(r.has_max, r.max_val));
    });
    auto verifiers = texts(p->verifiers, p->verifier_count);
    auto guards = texts(p->guards_code, p->guard_count);
    auto samples = list<flat::SampleInput>(p->sample_input_count, [&](uint32_t i) {
        return sample(p->sample_inputs[i], storage_map);
    });
    auto extras = list<flat::ExtraFile>(p->extra_file_count, [&](uint32_t i) {
        auto file = must(p->extra_files[i].name);
        return flat::CreateExtraFile(fbb_, file, storage_map[p->extra_files[i].storage]);
    });
    auto said = list<flat::InputMetadata>(p->input_metadata_count, [&](uint32_t i) {
        auto input = may(p->input_metadata[i].input);
        return flat::CreateInputMetadata(fbb_, input, pairs(p->input_metadata[i].metadata));
    });
    auto weights =
        list<flat::Weight>(w->count, [&](uint32_t i) { return weight(w->items[i], storage_map); });
    auto storages =
        list<flat::Storage>(stored_count, [&](uint32_t i) { return storage(stored[i]); });
    auto form = may(p->early_form);
    auto of_weights = list<flat::WeightsMetadata>(w->metadata.count, [&](uint32_t i) {
        auto key = must(w->metadata.items[i].key);
        auto kind = may(exg_weights_metadata_kind(w, i));
        auto value = must(w->metadata.items[i].value);
        return flat::CreateWeightsMetadata(fbb_, key, kind, value);
    });

    return flat::CreateProgram(
        fbb_, &nothing, EXG_FORMAT_MAJOR, EXG_FORMAT_MINOR, name,
        p->origin == EXG_ORIGIN_EARLY ? flat::Origin_EARLY : flat::Origin_CURRENT, p->schema_major,
        p->schema_minor, torch, top, spec, calls, metadata, tuples, opsets, ranges, verifiers,
        guards, samples, extras, weights, storages, said, form, of_weights);
}

} // namespace
