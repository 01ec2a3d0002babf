/* exg.hpp - the C interface for C++17: handles that free themselves, results that hold a value or a
 * fault.
 *
 * Nothing here throws but std::bad_alloc, and nothing is done that the C functions do not do: their
 * headers say what is meant. get() is the handle, for every function that has no name here. */
#ifndef EXG_EXG_HPP
#define EXG_EXG_HPP

#include <exg/exec.h>

#include <complex>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace exg
{

/* A fault: exg/status.h. */
class fault
{
  public:
    explicit fault(const exg_error &raw) : raw_(raw)
    {
    }
    exg_status status() const
    {
        return raw_.status;
    }
    const char *code() const
    {
        return raw_.code;
    } /* stable: "NOD-017" */
    const char *message() const
    {
        return raw_.message;
    }
    const char *where() const
    {
        return raw_.where;
    }
    const char *fix() const
    {
        return raw_.fix;
    }
    const exg_error &raw() const
    {
        return raw_;
    }

  private:
    exg_error raw_;
};

/* A T, or the fault for which there is none; as std::expected<T, fault>. */
template <class T> class result
{
  public:
    result(T value) : held_(std::in_place_index<0>, std::move(value))
    {
    }
    result(fault f) : held_(std::in_place_index<1>, std::move(f))
    {
    }
    bool has_value() const
    {
        return held_.index() == 0;
    }
    explicit operator bool() const
    {
        return has_value();
    }
    T &value()
    {
        return std::get<0>(held_);
    }
    const T &value() const
    {
        return std::get<0>(held_);
    }
    T &operator*()
    {
        return value();
    }
    const T &operator*() const
    {
        return value();
    }
    T *operator->()
    {
        return &value();
    }
    const T *operator->() const
    {
        return &value();
    }
    const fault &error() const
    {
        return std::get<1>(held_);
    }

  private:
    std::variant<T, fault> held_;
};

/* Of what has no value: done, or a fault. */
using status = result<std::monostate>;

namespace detail
{
inline status done(exg_status s, const exg_error &err)
{
    return s == EXG_OK ? status(std::monostate{}) : status(fault(err));
}
template <class T, void (*destroy)(T *)> struct freed {
    void operator()(T *handle) const
    {
        destroy(handle);
    }
};
template <class T, void (*destroy)(T *)> using handle = std::unique_ptr<T, freed<T, destroy>>;
} // namespace detail

/* ---- tensors --------------------------------------------------------------- */

template <class T>
inline constexpr exg_dtype dtype_of = EXG_DTYPE_COUNT; /* of float: EXG_DTYPE_F32 */
template <> inline constexpr exg_dtype dtype_of<bool> = EXG_DTYPE_B8;
template <> inline constexpr exg_dtype dtype_of<uint8_t> = EXG_DTYPE_U8;
template <> inline constexpr exg_dtype dtype_of<int8_t> = EXG_DTYPE_I8;
template <> inline constexpr exg_dtype dtype_of<uint16_t> = EXG_DTYPE_U16;
template <> inline constexpr exg_dtype dtype_of<int16_t> = EXG_DTYPE_I16;
template <> inline constexpr exg_dtype dtype_of<uint32_t> = EXG_DTYPE_U32;
template <> inline constexpr exg_dtype dtype_of<int32_t> = EXG_DTYPE_I32;
template <> inline constexpr exg_dtype dtype_of<uint64_t> = EXG_DTYPE_U64;
template <> inline constexpr exg_dtype dtype_of<int64_t> = EXG_DTYPE_I64;
template <> inline constexpr exg_dtype dtype_of<float> = EXG_DTYPE_F32;
template <> inline constexpr exg_dtype dtype_of<double> = EXG_DTYPE_F64;
template <> inline constexpr exg_dtype dtype_of<std::complex<float>> = EXG_DTYPE_C64;
template <> inline constexpr exg_dtype dtype_of<std::complex<double>> = EXG_DTYPE_C128;

/* Borrowed memory, row by row. A const T is one that the program must not write. */
template <class T> exg_tensor tensor_of(T *data, std::initializer_list<int64_t> sizes)
{
    using element = std::remove_const_t<T>;
    static_assert(dtype_of<element> != EXG_DTYPE_COUNT, "no dtype of exg has such elements");
    exg_tensor t{};

    t.data = const_cast<element *>(data);
    t.dtype = dtype_of<element>;
    for (int64_t size : sizes) {
        if (t.rank < EXG_RANK_MAX) {
            t.sizes[t.rank] = size;
        }
        t.rank++; /* one too large is refused when it is used (INP-004) */
    }
    if (t.rank <= EXG_RANK_MAX) {
        exg_tensor_set_contiguous(&t);
    }
    return t;
}

/* The elements of a tensor, or NULL where they are no T. */
template <class T> const T *data_of(const exg_tensor &t)
{
    return t.dtype == dtype_of<T> ? static_cast<const T *>(t.data) : nullptr;
}

/* ---- weights --------------------------------------------------------------- */

/* A file of weights, or the weights of a program. */
class weights
{
  public:
    explicit weights(exg_weights *taken) : handle_(taken)
    {
    }
    static result<weights> open(const std::string &path, const exg_open_options *options = nullptr)
    {
        exg_weights *w = nullptr;
        exg_error err;

        if (exg_weights_open(path.c_str(), options, &w, nullptr, &err) != EXG_OK) {
            return fault(err);
        }
        return weights(w);
    }
    uint32_t size() const
    {
        return handle_->count;
    }
    const exg_weight &operator[](uint32_t index) const
    {
        return handle_->items[index];
    }
    const exg_weight *find(const char *name) const
    {
        return exg_weights_find(get(), EXG_TABLE_STATE, name);
    }

    /* All elements, row by row; a fault where they are no T. */
    template <class T> result<std::vector<T>> read(const exg_weight &weight)
    {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> is no memory: read uint8_t");
        std::vector<T> elements;
        uint64_t bytes = 0;
        exg_error err;

        if (weight.meta == nullptr || weight.meta->dtype != dtype_of<T>) {
            exg_error_clear(&err);
            (void)exg_error_set(&err, __FILE__, __LINE__, EXG_USAGE, "WGT-DTYPE",
                                "'%s' is read as elements of another dtype", weight.fqn);
            return fault(err);
        }
        if (exg_tensor_meta_bytes(weight.meta, &bytes, &err) != EXG_OK) {
            return fault(err);
        }
        elements.resize(bytes / sizeof(T));
        if (exg_weight_read(get(), &weight, elements.data(), bytes, &err) != EXG_OK) {
            return fault(err);
        }
        return elements;
    }
    status save(const std::string &path, const exg_weights_save_options *options = nullptr)
    {
        exg_error err;

        return detail::done(exg_weights_save(get(), path.c_str(), options, &err), err);
    }
    exg_weights *get() const
    {
        return handle_.get();
    }

  private:
    detail::handle<exg_weights, exg_weights_release> handle_;
};

/* ---- programs -------------------------------------------------------------- */

class session;

/* A program that passed verification, with its operators. */
class program
{
  public:
    /* Opens and verifies. No weight is read. */
    static result<program> open(const std::string &path, const exg_open_options *options = nullptr)
    {
        exg_program *opened = nullptr;
        exg_operators *operators = nullptr;
        exg_error err;

        if (exg_open(path.c_str(), options, &opened, nullptr, &err) != EXG_OK) {
            return fault(err);
        }
        auto shared = std::make_shared<held>();
        shared->opened.reset(opened);
        if (exg_operators_create(&operators, &err) != EXG_OK) {
            return fault(err);
        }
        shared->operators.reset(operators);
        if (exg_operators_load_for(operators, opened, &err) != EXG_OK ||
            exg_verify(opened, operators, &shared->verified, nullptr, &err) != EXG_OK) {
            return fault(err);
        }
        return program(std::move(shared));
    }
    class weights weights() const
    {
        return exg::weights(exg_weights_retain(get()->weights));
    }

    /* In the format that the name says: .pt2, .exg, .json. */
    status save(const std::string &path, const exg_save_options *options = nullptr) const
    {
        exg_error err;

        return detail::done(
            exg_save(get(), path.c_str(), exg_format_from_path(path.c_str()), options, &err), err);
    }
    result<class session> session(const exg_session_options *options = nullptr) const;
    const exg_program *get() const
    {
        return held_->opened.get();
    }
    const exg_verified &verified() const
    {
        return held_->verified;
    }

  private:
    struct held {
        detail::handle<exg_program, exg_program_destroy> opened;
        detail::handle<exg_operators, exg_operators_destroy> operators;
        exg_verified verified{};
    };
    explicit program(std::shared_ptr<held> h) : held_(std::move(h))
    {
    }
    std::shared_ptr<held> held_;
    friend class session;
};

/* ---- sessions -------------------------------------------------------------- */

/* An input by the name of its placeholder: a tensor, or a number for a symbolic size. */
struct input : exg_session_input {
    input(const char *placeholder, const exg_tensor &t)
        : exg_session_input{placeholder, t, false, 0, false}
    {
    }
    input(const char *placeholder, int64_t n)
        : exg_session_input{placeholder, exg_tensor{}, true, n, false}
    {
    }
};

/* A program that is ready to run, again and again; it keeps the program. */
class session
{
  public:
    status run(std::initializer_list<input> inputs)
    {
        return run(inputs.begin(), inputs.size());
    }
    status run(const std::vector<input> &inputs)
    {
        return run(inputs.data(), inputs.size());
    }
    void stop()
    {
        exg_session_stop(get());
    } /* from any thread */
    uint32_t output_count() const
    {
        return exg_session_output_count(get());
    }

    /* Of the last run, lent until the next; data NULL where the output is no tensor. */
    const exg_tensor &output(uint32_t index) const
    {
        static const exg_tensor none{};
        const exg_session_output *o = exg_session_output_at(get(), index);

        return o == nullptr || o->constant.kind != EXG_ARGUMENT_TENSOR ? none : o->tensor;
    }
    exg_session *get() const
    {
        return handle_.get();
    }

  private:
    session(exg_session *taken, std::shared_ptr<program::held> of)
        : program_(std::move(of)), handle_(taken)
    {
    }
    status run(const input *inputs, size_t count)
    {
        std::vector<exg_session_input> given(inputs, inputs + count);
        exg_error err;

        return detail::done(
            exg_session_run(get(), given.data(), static_cast<uint32_t>(count), &err), err);
    }
    std::shared_ptr<program::held> program_; /* goes after the session */
    detail::handle<exg_session, exg_session_destroy> handle_;
    friend class program;
};

inline result<session> program::session(const exg_session_options *options) const
{
    exg_session *made = nullptr;
    exg_error err;

    if (exg_session_create(&held_->verified, options, &made, &err) != EXG_OK) {
        return fault(err);
    }
    return exg::session(made, held_);
}

} // namespace exg

#endif
