/* decode.hpp - FlatBuffers to the model; part of flat.cpp.
 *
 * The bytes went through the verifier: every offset may be followed. What is left to
 * check is what the verifier cannot know: ids, enum values, texts, places in the file.
 * Tables and texts may be shared in hostile files, so all that is made is counted
 * against the arena's budget. Faults stick; the first one is reported.
 */
namespace
{

template <typename T> using table_list = flatbuffers::Vector<flatbuffers::Offset<T>>;

class decoder
{
  public:
    /* The metadata lives as long as the program: its texts are used where they lie.
     * `checked` has a zeroed bit for every four bytes of it. */
    decoder(const uint8_t *metadata, size_t length, uint32_t *checked, exg_program *p,
            exg_error *err)
        : metadata_(metadata), length_(length), checked_(checked), p_(p), err_(err)
    {
    }

    exg_status program(const flat::Program *f);
    exg_status storages(const flat::Program *f, const uint8_t *file, uint64_t file_length);

  private:
    bool good() const
    {
        return status_ == EXG_OK;
    }
    void out_of_memory()
    {
        if (good()) {
            status_ = EXG_OUT_OF_MEMORY(err_);
        }
    }
    void unknown(const char *what, uint64_t value)
    {
        if (good()) {
            status_ = EXG_FAIL(err_, MALFORMED, "EXG-010", "%s %llu is unknown", what,
                               static_cast<unsigned long long>(value));
        }
    }
    void contradiction(const char *what)
    {
        if (good()) {
            status_ = EXG_FAIL(err_, MALFORMED, "EXG-013", "%s", what);
        }
    }

    /* ---- building blocks ---- */

    template <typename T> T *array(size_t count)
    {
        T *made = good() ? static_cast<T *>(exg_arena_alloc(p_->arena, count, sizeof(T))) : nullptr;

        if (made == nullptr) {
            out_of_memory();
        }
        return made;
    }

    /* Texts are shared by many tables; each is checked once. The FlatBuffers verifier
     * has seen the NUL behind it. */
    const char *text(const flatbuffers::String *s)
    {
        if (s == nullptr || !good()) {
            return nullptr;
        }
        size_t at = static_cast<size_t>(reinterpret_cast<const uint8_t *>(s) - metadata_);
        uint32_t *word = &checked_[at / 128];
        uint32_t bit = uint32_t{1} << (at / 4 % 32);

        if ((*word & bit) == 0) {
            if (std::memchr(s->data(), 0, s->size()) != nullptr ||
                !exg_text_is_utf8(s->c_str(), s->size())) {
                status_ = EXG_FAIL(err_, MALFORMED, "EXG-014", "a text is not UTF-8 without NUL");
                exg_error_at(err_, status_, at);
                return nullptr;
            }
            *word |= bit;
        }
        return s->c_str();
    }

    /* `make(item, &made[i])` for all of them. */
    template <typename M, typename T, typename F>
    M *list(const table_list<T> *from, uint32_t *count, const char *what, F make)
    {
        M *made = array<M>(from == nullptr ? 0 : from->size());

        *count = 0;
        for (uint32_t i = 0; made != nullptr && from != nullptr && i < from->size(); i++) {
            make(from->Get(i), &made[i]);
            if (!good()) {
                exg_error_within(err_, status_, "%s[%u]", what, i);
                return made;
            }
            *count = i + 1;
        }
        return made;
    }
    /* The verifier sees to single numbers, not to those of a list. */
    template <typename S> bool aligned(const flatbuffers::Vector<S> *from)
    {
        using item = typename std::remove_pointer<S>::type;

        if (from != nullptr && from->size() > 0 && good() &&
            static_cast<size_t>(from->Data() - metadata_) % alignof(item) != 0) {
            status_ = EXG_FAIL(err_, MALFORMED, "EXG-003", "a list of numbers is not aligned");
        }
        return good();
    }
    template <typename T, typename S>
    T *numbers(const flatbuffers::Vector<S> *from, uint32_t *count)
    {
        static_assert(sizeof(T) == sizeof(S), "the same numbers");
        T *made = aligned(from) ? array<T>(from->size()) : nullptr;

        for (uint32_t i = 0; made != nullptr && i < from->size(); i++) {
            made[i] = static_cast<T>(from->Get(i));
        }
        *count = made == nullptr ? 0 : from->size();
        return made;
    }
    const char **texts(const table_list<flatbuffers::String> *from, uint32_t *count)
    {
        return list<const char *>(from, count, "text",
                                  [&](auto *s, const char **to) { *to = text(s); });
    }
    exg_string_map pairs(const table_list<flat::StringPair> *from)
    {
        exg_string_map map = {nullptr, 0};

        map.items = list<exg_string_pair>(from, &map.count, "metadata", [&](auto *f, auto *to) {
            to->key = text(f->key());
            to->value = text(f->value());
        });
        return map;
    }

    exg_value_id value_id(uint32_t id)
    {
        if (id >= value_count_ && good()) {
            status_ = EXG_FAIL(err_, MALFORMED, "EXG-011", "value %u of %u", id, value_count_);
        }
        return id;
    }
    uint32_t storage_id(uint32_t id)
    {
        if (id >= p_->weights->storage_count && good()) {
            status_ = EXG_FAIL(err_, MALFORMED, "EXG-012", "storage %u of %u", id,
                               p_->weights->storage_count);
        }
        return id;
    }
    exg_value_id *value_ids(const flatbuffers::Vector<uint32_t> *from, uint32_t *count, bool none)
    {
        exg_value_id *ids = numbers<exg_value_id>(from, count);

        for (uint32_t i = 0; i < *count; i++) {
            if (!none || ids[i] != EXG_NO_VALUE) {
                value_id(ids[i]);
            }
        }
        return ids;
    }
    exg_dtype dtype(flat::DType number)
    {
        exg_dtype d = exg_dtype_from_export_number(number);

        if (d == EXG_DTYPE_COUNT) {
            unknown("dtype", number);
        }
        return d;
    }
    template <typename E, typename S> E known(S number, unsigned last, const char *what)
    {
        if (static_cast<unsigned>(number) > last) {
            unknown(what, static_cast<unsigned>(number));
        }
        return static_cast<E>(number);
    }
    exg_layout layout(flat::Layout number)
    {
        return known<exg_layout>(number, flat::Layout_MAX, "layout");
    }
    template <typename T> T there(const flatbuffers::Optional<T> &value)
    {
        if (!value) {
            contradiction("a number is missing");
        }
        return value ? *value : T();
    }
    static exg_tristate maybe_of(const flatbuffers::Optional<bool> &value)
    {
        return !value ? EXG_UNSET : *value ? EXG_TRUE : EXG_FALSE;
    }

    /* ---- the model ---- */

    exg_device device(const flat::Device *f)
    {
        return {text(f->type()), f->index() ? *f->index() : -1};
    }
    exg_tensor_meta *meta(const flat::TensorMeta *f);
    void value(const flat::Value *f, exg_value *to);
    exg_sym_argument sym(const flat::SymArgument *f, exg_model_type type);
    void content(flat::ArgumentValue type, const void *f, exg_argument *to);
    /* Hands the table of a union to who reads it, as what that takes. */
    template <typename T>
    void read(void (decoder::*reader)(const T *, exg_argument *), const void *f, exg_argument *to)
    {
        if (f != nullptr) {
            (this->*reader)(static_cast<const T *>(f), to);
        }
    }

    /* ---- what an argument holds: a type of model.def in a form ---- */

    void NOTHING_ONE(const flat::Nothing *, exg_argument *)
    {
    }
    void VALUE_ONE(const flat::ValueRef *f, exg_argument *to)
    {
        to->as_tensor = value_id(f->value());
    }
    void VALUE_LIST(const flat::Values *f, exg_argument *to)
    {
        to->as_tensors = value_ids(f->items(), &to->count, false);
    }
    void OPTIONAL_VALUE_ONE(const flat::OptionalValueRef *f, exg_argument *to)
    {
        to->as_tensor = f->value() ? value_id(*f->value()) : EXG_NO_VALUE;
    }
    void OPTIONAL_VALUE_LIST(const flat::OptionalValues *f, exg_argument *to)
    {
        to->as_tensors = value_ids(f->items(), &to->count, true);
    }
    void INT_ONE(const flat::Int *f, exg_argument *to)
    {
        to->as_int = f->value();
    }
    void INT_LIST(const flat::Ints *f, exg_argument *to)
    {
        to->as_ints = numbers<int64_t>(f->items(), &to->count);
    }
    void FLOAT_ONE(const flat::Float *f, exg_argument *to)
    {
        to->as_float = there(f->value());
    }
    void FLOAT_LIST(const flat::Floats *f, exg_argument *to)
    {
        to->as_floats = numbers<double>(f->items(), &to->count);
    }
    void BOOL_ONE(const flat::Bool *f, exg_argument *to)
    {
        to->as_bool = f->value();
    }
    void BOOL_LIST(const flat::Bools *f, exg_argument *to)
    {
        to->as_bools = numbers<bool>(f->items(), &to->count);
    }
    void TEXT_ONE(const flat::Text *f, exg_argument *to)
    {
        to->as_string = text(f->value());
    }
    void TEXT_LIST(const flat::Texts *f, exg_argument *to)
    {
        to->as_strings = texts(f->items(), &to->count);
    }
    void TARGET_ONE(const flat::Text *f, exg_argument *to)
    {
        TEXT_ONE(f, to);
    }
    void SYM_INT_ARGUMENT_ONE(const flat::SymArgument *f, exg_argument *to)
    {
        to->as_sym = sym(f, EXG_MODEL_SYM_INT_ARGUMENT);
    }
    void SYM_INT_ARGUMENT_LIST(const flat::SymArguments *f, exg_argument *to)
    {
        syms(f, EXG_MODEL_SYM_INT_ARGUMENT, to);
    }
    void SYM_FLOAT_ARGUMENT_ONE(const flat::SymArgument *f, exg_argument *to)
    {
        to->as_sym = sym(f, EXG_MODEL_SYM_FLOAT_ARGUMENT);
    }
    void SYM_FLOAT_ARGUMENT_LIST(const flat::SymArguments *f, exg_argument *to)
    {
        syms(f, EXG_MODEL_SYM_FLOAT_ARGUMENT, to);
    }
    void SYM_BOOL_ARGUMENT_ONE(const flat::SymArgument *f, exg_argument *to)
    {
        to->as_sym = sym(f, EXG_MODEL_SYM_BOOL_ARGUMENT);
    }
    void SYM_BOOL_ARGUMENT_LIST(const flat::SymArguments *f, exg_argument *to)
    {
        syms(f, EXG_MODEL_SYM_BOOL_ARGUMENT, to);
    }
    void DTYPE_ONE(const flat::ScalarType *f, exg_argument *to)
    {
        to->as_scalar_type = dtype(f->value());
    }
    void MEMORY_FORMAT_ONE(const flat::MemoryFormatArgument *f, exg_argument *to)
    {
        to->as_memory_format =
            known<exg_memory_format>(f->value(), flat::MemoryFormat_MAX, "memory format");
    }
    void LAYOUT_ONE(const flat::LayoutArgument *f, exg_argument *to)
    {
        to->as_layout = layout(f->value());
    }
    void DEVICE_ONE(const flat::Device *f, exg_argument *to)
    {
        to->as_device = device(f);
    }
    void COMPLEX_ONE(const flat::Complex *f, exg_argument *to)
    {
        to->as_complex.real = there(f->real());
        to->as_complex.imag = there(f->imag());
    }
    void GRAPH_ARGUMENT_POINTER(const flat::GraphArgument *f, exg_argument *to)
    {
        if ((to->as_graph = array<exg_graph_argument>(1)) != nullptr) {
            to->as_graph->name = text(f->name());
            to->as_graph->graph = array<exg_graph>(1);
            graph(f->graph(), to->as_graph->graph);
            to->as_graph->metadata = pairs(f->metadata());
            to->as_graph->lifted_count = f->lifted_count();
        }
    }
    void CUSTOM_OBJ_POINTER(const flat::CustomObj *f, exg_argument *to)
    {
        if ((to->as_custom_obj = array<exg_custom_obj>(1)) != nullptr) {
            *to->as_custom_obj = {text(f->name()), text(f->class_fqn())};
        }
    }
    void VALUE_LIST_LIST(const flat::ValueLists *f, exg_argument *to)
    {
        to->as_nested_tensors =
            list<exg_value_list>(f->items(), &to->count, "", [&](auto *l, auto *made) {
                made->items = value_ids(l->items(), &made->count, false);
            });
    }
    void INT_LIST_LIST(const flat::IntLists *f, exg_argument *to)
    {
        to->as_int_lists = list<exg_int_list>(f->items(), &to->count, "", [&](auto *l, auto *made) {
            made->items = numbers<int64_t>(l->items(), &made->count);
        });
    }
    void FLOAT_LIST_LIST(const flat::FloatLists *f, exg_argument *to)
    {
        to->as_float_lists =
            list<exg_float_list>(f->items(), &to->count, "", [&](auto *l, auto *made) {
                made->items = numbers<double>(l->items(), &made->count);
            });
    }
    void STRING_ARGUMENT_MAP(const flat::StringArguments *f, exg_argument *to)
    {
        to->as_string_to_argument =
            list<exg_string_argument>(f->items(), &to->count, "", [&](auto *s, auto *made) {
                made->key = text(s->key());
                content(s->value_type(), s->value(), &made->argument);
            });
    }
    void syms(const flat::SymArguments *f, exg_model_type type, exg_argument *to)
    {
        to->as_syms = list<exg_sym_argument>(f->items(), &to->count, "",
                                             [&](auto *s, auto *made) { *made = sym(s, type); });
    }
    exg_argument *arguments(const table_list<flat::Argument> *from, uint32_t *count,
                            const char *what)
    {
        return list<exg_argument>(from, count, what, [&](auto *f, exg_argument *to) {
            content(f->value_type(), f->value(), to);
        });
    }
    void node(const flat::Node *f, exg_node *to);
    void graph(const flat::Graph *f, exg_graph *to);
    template <typename Leaf, typename F> void constant(const F *f, Leaf *to);
    exg_argument_kind leaf_kind(flat::LeafKind kind);
    void leaf(const flat::SignatureArgument *f, exg_signature_argument *to);
    void signature(const flat::Signature *f, exg_signature *to);
    void module_call(const flat::ModuleCall *f, exg_module_call *to);
    void sample(const flat::SampleInput *f, exg_sample_input *to);
    void tables(const flat::Program *f);
    void weight(const flat::Weight *f);
    void weights_metadata(const flat::WeightsMetadata *f);
    exg_status storage(const flat::Storage *f, const uint8_t *file, uint64_t file_length);
    exg_status place(const flat::Storage *f, const uint8_t *file, uint64_t file_length,
                     exg_storage *to);
    exg_status frames(const flat::Storage *f, exg_storage *to);
    exg_status spend(const char *copied);

    const uint8_t *metadata_;
    size_t length_;
    uint32_t *checked_;
    exg_program *p_;
    exg_error *err_;
    exg_status status_ = EXG_OK;
    uint32_t value_count_ = 0; /* of the graph being read */
    uint64_t spent_ = 0;       /* bytes of texts copied into the weights */
};

/* ---- tensors ------------------------------------------------------------------------------ */

exg_tensor_meta *decoder::meta(const flat::TensorMeta *f)
{
    exg_tensor_meta *m = f == nullptr ? nullptr : array<exg_tensor_meta>(1);
    uint32_t next = 0;

    if (m == nullptr) {
        return nullptr;
    }
    m->dtype = dtype(f->dtype());
    m->layout = layout(f->layout());
    m->requires_grad = f->requires_grad();
    m->storage_offset.value = f->storage_offset();
    m->device = device(f->device());
    m->rank = f->sizes() == nullptr ? 0 : f->sizes()->size();
    if (m->rank != (f->strides() == nullptr ? 0 : f->strides()->size())) {
        contradiction("sizes and strides differ in number");
        return m;
    }
    m->sizes = array<exg_sym_int>(m->rank);
    m->strides = array<exg_sym_int>(m->rank);
    const bool readable = aligned(f->sizes()) && aligned(f->strides());
    for (uint32_t i = 0; good() && readable && i < m->rank; i++) {
        m->sizes[i].value = f->sizes()->Get(i);
        m->strides[i].value = f->strides()->Get(i);
    }
    for (uint32_t i = 0; good() && f->symbolic() != nullptr && i < f->symbolic()->size(); i++) {
        const flat::Dimension *d = f->symbolic()->Get(i);
        uint32_t at = d->place();

        if (at < next || at > 2 * uint64_t{m->rank}) {
            contradiction("places of expressions do not rise, or pass the rank");
            return m;
        }
        exg_sym_int *to = at < m->rank       ? &m->sizes[at]
                          : at < 2 * m->rank ? &m->strides[at - m->rank]
                                             : &m->storage_offset;
        to->expr = text(d->expr());
        to->has_hint = d->has_hint();
        next = at + 1;
    }
    return m;
}

void decoder::value(const flat::Value *f, exg_value *to)
{
    to->name = text(f->name());
    to->tensor = meta(f->tensor());
    to->custom_class = text(f->custom_class());
    if (f->sym_int() != nullptr && (to->sym_int = array<exg_sym_int>(1)) != nullptr) {
        *to->sym_int = {text(f->sym_int()->expr()), f->sym_int()->value(),
                        f->sym_int()->has_hint()};
    }
    if (f->sym_float() != nullptr && (to->sym_float = array<exg_sym_float>(1)) != nullptr) {
        *to->sym_float = {text(f->sym_float()->expr()), there(f->sym_float()->value()),
                          f->sym_float()->has_hint()};
    }
    if (f->sym_bool() != nullptr && (to->sym_bool = array<exg_sym_bool>(1)) != nullptr) {
        *to->sym_bool = {text(f->sym_bool()->expr()), f->sym_bool()->value(),
                         f->sym_bool()->has_hint()};
    }
}

/* ---- arguments ---------------------------------------------------------------------------- */

exg_sym_argument decoder::sym(const flat::SymArgument *f, exg_model_type type)
{
    exg_sym_argument made;

    std::memset(&made, 0, sizeof(made));
    made.value = EXG_NO_VALUE;
    if (f->value()) {
        made.value = value_id(*f->value());
    } else if (type == EXG_MODEL_SYM_FLOAT_ARGUMENT) {
        made.as_float = there(f->as_float());
    } else if (type == EXG_MODEL_SYM_BOOL_ARGUMENT) {
        made.as_bool = there(f->as_bool());
    } else {
        made.as_int = there(f->as_int());
    }
    return made;
}

void decoder::content(flat::ArgumentValue type, const void *f, exg_argument *to)
{
    switch (type) {
#define EXG_ARGUMENT(id, tag, early, number, type_, form)                                          \
    case flat::ArgumentValue_##tag:                                                                \
        to->kind = EXG_ARGUMENT_##id;                                                              \
        read(&decoder::type_##_##form, f, to);                                                     \
        break;
#include <exg/argument.def>
#undef EXG_ARGUMENT
    default:
        unknown("argument kind", type);
        break;
    }
}

/* ---- graph -------------------------------------------------------------------------------- */

void decoder::node(const flat::Node *f, exg_node *to)
{
    to->target = text(f->target());
    to->name = text(f->name());
    to->inputs = list<exg_named_argument>(
        f->inputs(), &to->input_count, "inputs", [&](auto *n, exg_named_argument *made) {
            made->name = text(n->name());
            made->kind = known<exg_kind>(n->passing(), flat::Passing_MAX, "passing");
            content(n->value_type(), n->value(), &made->arg);
        });
    to->outputs = arguments(f->outputs(), &to->output_count, "outputs");
    to->metadata = pairs(f->metadata());
    to->is_hop_single_tensor_return = maybe_of(f->is_hop_single_tensor_return());
}

void decoder::graph(const flat::Graph *f, exg_graph *to)
{
    uint32_t outer = value_count_;

    if (to == nullptr || !good()) {
        return;
    }
    value_count_ = f->values() == nullptr ? 0 : f->values()->size();
    to->values = list<exg_value>(f->values(), &to->value_count, "values",
                                 [&](auto *v, auto *made) { value(v, made); });
    to->inputs = arguments(f->inputs(), &to->input_count, "inputs");
    to->outputs = arguments(f->outputs(), &to->output_count, "outputs");
    to->nodes = list<exg_node>(f->nodes(), &to->node_count, "nodes",
                               [&](auto *n, auto *made) { node(n, made); });
    to->is_single_tensor_return = f->is_single_tensor_return();
    value_count_ = outer;
}

/* ---- signature and tables ----------------------------------------------------------------- */

exg_argument_kind decoder::leaf_kind(flat::LeafKind kind)
{
    static const exg_argument_kind kinds[] = {EXG_ARGUMENT_NONE,     EXG_ARGUMENT_TENSOR,
                                              EXG_ARGUMENT_SYM_INT,  EXG_ARGUMENT_SYM_FLOAT,
                                              EXG_ARGUMENT_SYM_BOOL, EXG_ARGUMENT_CUSTOM_OBJ,
                                              EXG_ARGUMENT_INT,      EXG_ARGUMENT_FLOAT,
                                              EXG_ARGUMENT_STRING,   EXG_ARGUMENT_BOOL};

    static_assert(sizeof(kinds) / sizeof(kinds[0]) == flat::LeafKind_MAX + 1, "one a kind");
    if (kind > flat::LeafKind_MAX) {
        unknown("leaf kind", kind);
        return EXG_ARGUMENT_NONE;
    }
    return kinds[kind];
}

template <typename Leaf, typename F> void decoder::constant(const F *f, Leaf *to)
{
    if (to->kind == EXG_ARGUMENT_INT) {
        to->as_int = there(f->as_int());
    } else if (to->kind == EXG_ARGUMENT_FLOAT) {
        to->as_float = there(f->as_float());
    } else if (to->kind == EXG_ARGUMENT_BOOL) {
        to->as_bool = there(f->as_bool());
    } else if (to->kind == EXG_ARGUMENT_STRING || to->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
        to->as_string = text(f->as_string());
        if (to->as_string == nullptr && to->kind == EXG_ARGUMENT_STRING) {
            contradiction("a text is missing");
        }
    }
}

void decoder::leaf(const flat::SignatureArgument *f, exg_signature_argument *to)
{
    to->kind = leaf_kind(f->kind());
    to->is_token = f->is_token();
    to->name = text(f->name());
    constant(f, to);
}

void decoder::signature(const flat::Signature *f, exg_signature *to)
{
    to->inputs = list<exg_input_spec>(
        f->inputs(), &to->input_count, "signature.inputs", [&](auto *s, exg_input_spec *made) {
            made->kind = known<exg_input_kind>(s->kind(), flat::InputKind_MAX, "input kind");
            leaf(s->arg(), &made->arg);
            made->target = text(s->target());
            made->persistent = maybe_of(s->persistent());
            made->implicit = s->implicit();
        });
    to->outputs = list<exg_output_spec>(
        f->outputs(), &to->output_count, "signature.outputs", [&](auto *s, exg_output_spec *made) {
            made->kind = known<exg_output_kind>(s->kind(), flat::OutputKind_MAX, "output kind");
            leaf(s->arg(), &made->arg);
            made->target = text(s->target());
        });
    to->assertion_dep_token = text(f->assertion_dep_token());
    to->assertion_dep_index = f->assertion_dep_index();
}

void decoder::module_call(const flat::ModuleCall *f, exg_module_call *to)
{
    const flat::ModuleCallSignature *s = f->signature();

    to->fqn = text(f->fqn());
    to->has_signature = s != nullptr;
    if (s != nullptr) {
        to->inputs = arguments(s->inputs(), &to->input_count, "inputs");
        to->outputs = arguments(s->outputs(), &to->output_count, "outputs");
        to->in_spec = text(s->in_spec());
        to->out_spec = text(s->out_spec());
        if (s->forward_arg_names() != nullptr) {
            to->forward_arg_names = texts(s->forward_arg_names(), &to->forward_arg_name_count);
        }
    }
}

void decoder::sample(const flat::SampleInput *f, exg_sample_input *to)
{
    to->keyword = text(f->keyword());
    to->kind = leaf_kind(f->kind());
    to->meta = meta(f->meta());
    if (to->kind == EXG_ARGUMENT_SYM_INT || to->kind == EXG_ARGUMENT_SYM_FLOAT ||
        to->kind == EXG_ARGUMENT_SYM_BOOL || to->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
        contradiction("a sample input that is no tensor and no number");
    }
    if (to->kind == EXG_ARGUMENT_TENSOR) {
        to->storage = storage_id(there(f->storage()));
        if (to->meta == nullptr) {
            contradiction("a tensor without a meta");
        }
    }
    constant(f, to);
}

void decoder::tables(const flat::Program *f)
{
    p_->named_tuples = list<exg_named_tuple>(
        f->named_tuples(), &p_->named_tuple_count, "named_tuples", [&](auto *t, auto *made) {
            made->type = text(t->type());
            made->field_names = texts(t->field_names(), &made->field_count);
        });
    p_->opsets = list<exg_opset>(f->opsets(), &p_->opset_count, "opsets", [&](auto *o, auto *made) {
        *made = {text(o->name_space()), o->version()};
    });
    p_->range_constraints =
        list<exg_range_constraint>(f->range_constraints(), &p_->range_constraint_count,
                                   "range_constraints", [&](auto *r, auto *made) {
                                       made->symbol = text(r->symbol());
                                       made->has_min = r->min().has_value();
                                       made->has_max = r->max().has_value();
                                       made->min_val = r->min() ? *r->min() : 0;
                                       made->max_val = r->max() ? *r->max() : 0;
                                   });
    p_->sample_inputs =
        list<exg_sample_input>(f->sample_inputs(), &p_->sample_input_count, "sample_inputs",
                               [&](auto *s, auto *made) { sample(s, made); });
    p_->extra_files = list<exg_extra_file>(f->extra_files(), &p_->extra_file_count, "extra_files",
                                           [&](auto *e, auto *made) {
                                               *made = {text(e->name()), storage_id(e->storage())};
                                           });
    p_->input_metadata = list<exg_input_metadata>(
        f->input_metadata(), &p_->input_metadata_count, "input_metadata", [&](auto *m, auto *made) {
            *made = {text(m->input()), pairs(m->metadata())};
        });
}

exg_status decoder::program(const flat::Program *f)
{
    p_->name = text(f->name());
    p_->origin = known<exg_origin>(f->origin(), flat::Origin_MAX, "origin");
    p_->schema_major = f->schema_major();
    p_->schema_minor = f->schema_minor();
    p_->torch_version = text(f->torch_version());
    p_->early_form = text(f->early_form());
    graph(f->graph(), p_->graph);
    if (!good()) {
        return exg_error_within(err_, status_, "graph");
    }
    signature(f->signature(), &p_->signature);
    value_count_ = p_->graph->value_count;
    p_->module_calls =
        list<exg_module_call>(f->module_calls(), &p_->module_call_count, "module_calls",
                              [&](auto *c, auto *made) { module_call(c, made); });
    p_->metadata = pairs(f->metadata());
    p_->verifiers = texts(f->verifiers(), &p_->verifier_count);
    p_->guards_code = texts(f->guards_code(), &p_->guard_count);
    tables(f);
    for (uint32_t i = 0; good() && f->weights() != nullptr && i < f->weights()->size(); i++) {
        weight(f->weights()->Get(i));
        if (!good()) {
            exg_error_within(err_, status_, "weights[%u]", i);
        }
    }
    for (uint32_t i = 0;
         good() && f->weights_metadata() != nullptr && i < f->weights_metadata()->size(); i++) {
        weights_metadata(f->weights_metadata()->Get(i));
    }
    return status_;
}

/* ---- weights ------------------------------------------------------------------------------ */

/* Texts that go into the weights' own arena, which has no budget: 64 times the metadata. */
exg_status decoder::spend(const char *copied)
{
    spent_ += copied == nullptr ? 0 : std::strlen(copied) + 1;
    return spent_ / 64 <= length_ ? EXG_OK
                                  : EXG_FAIL(err_, LIMIT, "EXG-051", "names pass the limit");
}

void decoder::weight(const flat::Weight *f)
{
    exg_weight w;

    std::memset(&w, 0, sizeof(w));
    w.fqn = text(f->fqn());
    w.table = known<exg_weight_table>(f->table(), flat::WeightTable_MAX, "weight table");
    w.is_param = f->is_param();
    w.use_pickle = f->use_pickle();
    w.meta = meta(f->meta());
    w.storage = storage_id(f->storage());
    w.encoding = text(f->encoding());
    if (good()) {
        status_ = spend(w.fqn);
    }
    if (good()) {
        status_ = spend(w.encoding);
    }
    if (good()) {
        status_ = exg_weights_add(p_->weights, &w, err_);
    }
}

void decoder::weights_metadata(const flat::WeightsMetadata *f)
{
    const char *key = text(f->key());
    const char *kind = text(f->kind());
    const char *value = text(f->value());

    for (const char *copied : {key, kind, value}) {
        if (good()) {
            status_ = spend(copied);
        }
    }
    if (good()) {
        status_ = exg_weights_add_metadata_as(p_->weights, key, kind, value, err_);
    }
}

exg_status decoder::frames(const flat::Storage *f, exg_storage *to)
{
    exg_arena *arena = p_->weights->arena;
    const auto *index = f->frames();
    exg_frames *made = EXG_NEW(arena, exg_frames);

    if (!aligned(index)) {
        return status_;
    }
    if (made == nullptr ||
        (made->items = EXG_NEW_ARRAY(arena, exg_frame, index->size())) == nullptr) {
        return EXG_OUT_OF_MEMORY(err_);
    }
    made->plain_length = f->length();
    made->stored_length = f->place()->length();
    made->count = index->size();
    made->element_bytes = f->element_bytes();
    for (uint32_t i = 0; i < made->count; i++) {
        const flat::Frame *frame = index->Get(i);

        made->items[i].offset = frame->offset();
        made->items[i].checksum = frame->checksum();
        for (uint16_t p = 0; p < EXG_FRAME_PLANES_MAX; p++) {
            made->items[i].planes[p] = frame->planes()->Get(p);
        }
    }
    to->kind = EXG_STORAGE_FRAMES;
    to->frames = made;
    return exg_frames_check_index(made, err_);
}

/* Where the stored bytes lie: inside this file after the metadata, or in one beside it. */
exg_status decoder::place(const flat::Storage *f, const uint8_t *file, uint64_t file_length,
                          exg_storage *to)
{
    uint64_t at = f->place()->offset();
    uint64_t bytes = f->place()->length();

    to->location = text(f->location());
    EXG_TRY(status_);
    EXG_TRY(spend(to->location));
    if (to->location != nullptr) {
        to->offset = at;
        if (!exg_location_is_plain(to->location)) {
            return EXG_FAIL(err_, MALFORMED, "WGT-LOC",
                            "external location '%s' may leave its folder", to->location);
        }
        if (to->kind != EXG_STORAGE_FRAMES) {
            to->kind = EXG_STORAGE_EXTERNAL;
        }
    } else {
        if (!exg_range_inside(at, bytes, file_length) || at < length_ || at % 64 != 0) {
            return EXG_FAIL(
                err_, MALFORMED, "EXG-015", "%llu bytes at offset %llu are no payload of this file",
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(at));
        }
        to->data = file + at;
    }
    if (to->kind != EXG_STORAGE_FRAMES && bytes != to->length) {
        return EXG_FAIL(err_, MALFORMED, "EXG-015", "%llu plain bytes are stored in %llu",
                        static_cast<unsigned long long>(to->length),
                        static_cast<unsigned long long>(bytes));
    }
    return EXG_OK;
}

exg_status decoder::storage(const flat::Storage *f, const uint8_t *file, uint64_t file_length)
{
    exg_storage made;
    exg_checksum declared;
    char digits[33];
    uint32_t index;

    std::memset(&made, 0, sizeof(made));
    made.kind = EXG_STORAGE_MEMORY;
    made.length = f->length();
    made.byte_order = known<exg_byte_order>(f->byte_order(), flat::ByteOrder_MAX, "byte order");
    EXG_TRY(status_);
    if (f->frames() != nullptr) {
        EXG_TRY(frames(f, &made));
    }
    EXG_TRY(place(f, file, file_length, &made));
    std::snprintf(digits, sizeof(digits), "%016llx%016llx",
                  static_cast<unsigned long long>(f->place()->hash_high()),
                  static_cast<unsigned long long>(f->place()->hash_low()));
    made.checksum = {EXG_CHECKSUM_XXH3_128, digits};
    if (f->declared_checksum() != nullptr) {
        declared = {EXG_CHECKSUM_UNKNOWN, text(f->declared_checksum())};
        EXG_TRY(status_);
        EXG_TRY(spend(declared.text));
        made.further = &declared;
        made.further_count = 1;
    }
    return exg_weights_add_storage(p_->weights, &made, &index, err_);
}

exg_status decoder::storages(const flat::Program *f, const uint8_t *file, uint64_t file_length)
{
    for (uint32_t i = 0; f->storages() != nullptr && i < f->storages()->size(); i++) {
        EXG_TRY_IN(err_, storage(f->storages()->Get(i), file, file_length), "storages[%u]", i);
    }
    return EXG_OK;
}

} // namespace
