/* rule.c - the rows of rule.def as data. */
#include <exg/verify.h>

#include <string.h>

static const exg_rule rules[] = {
#define EXG_RULE(code, severity, keeper, claim, fix)                                               \
    {code, EXG_SEVERITY_##severity, EXG_KEEPER_##keeper, claim, fix},
#include "libexport/verify/rule.def"
#undef EXG_RULE
};

const char *exg_severity_name(exg_severity severity)
{
    static const char *const names[] = {"error", "warning", "note"};

    return severity <= EXG_SEVERITY_NOTE ? names[severity] : "?";
}

const char *exg_keeper_name(exg_keeper keeper)
{
    static const char *const names[] = {"opening", "verifying", "data",
                                        "file",    "weights",   "nothing"};

    return keeper <= EXG_KEEPER_NOTHING ? names[keeper] : "?";
}

uint32_t exg_rule_count(void)
{
    return sizeof(rules) / sizeof(rules[0]);
}

const exg_rule *exg_rule_at(uint32_t index)
{
    return index < exg_rule_count() ? &rules[index] : NULL;
}

const exg_rule *exg_rule_find(const char *code)
{
    for (uint32_t i = 0; i < exg_rule_count(); i++) {
        if (strcmp(rules[i].code, code) == 0) {
            return &rules[i];
        }
    }
    return NULL;
}
