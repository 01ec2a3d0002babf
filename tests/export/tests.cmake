# libexport's tests

# Readers and the model. maker.c makes archives, good and bad.
exg_shared(folder exg::export export/exg_folder.c export/codes.c)
target_link_options(tests_folder INTERFACE -Wl,--wrap=exg_error_set)
exg_test(export_json export/json.c LIBS exg::export)
exg_test(export_json_writer export/json_writer.c LIBS exg::export)
exg_test(export_zip export/zip.c export/maker.c LIBS exg::export)
exg_test(export_pt2 export/pt2.c export/maker.c LIBS exg::export)
exg_test(export_pt2_save export/pt2_save.c LIBS tests_folder exg::export)
exg_test(export_pickle export/pickle.c LIBS exg::export)
exg_test(export_early export/early.c export/early_maker.c LIBS tests_folder exg::export)
exg_test(export_early_values export/early_values.c export/early_maker.c
  LIBS tests_folder exg::export)
exg_test(export_early_form export/early_form.c export/early_maker.c LIBS tests_folder exg::export)
exg_test(export_early_change export/early_change.c export/early_maker.c
  LIBS tests_folder exg::export)
exg_test(export_early_bad export/early_bad.c export/early_maker.c LIBS tests_folder exg::export)
exg_test(export_program export/program.c LIBS exg::export)
exg_test(export_out_of_memory export/out_of_memory.c export/refusal.c export/early_maker.c
  LIBS tests_folder exg::export)
exg_test(export_model export/model.c LIBS exg::export)
exg_test(export_print export/print.c LIBS exg::export)
exg_test(export_equal export/equal.c export/whole.c LIBS exg::export)
exg_test(export_model_table export/model_table.c LIBS exg::export)
exg_test(export_interface export/interface.c LIBS exg::export)
exg_test(export_builder export/builder.c LIBS exg::export)
exg_test(export_overloads export/overloads.c LIBS exg::export)
exg_test(export_held export/held.c LIBS exg::export)
exg_test(export_same export/same.c LIBS exg::export)
exg_test(export_signature export/signature.c export/rich.c LIBS exg::export)
exg_test(export_signature_maps export/signature_maps.c LIBS exg::export)
exg_test(export_tensor_file export/tensor_file.c LIBS exg::export)
exg_test(export_cut export/cut.c LIBS tests_folder exg::export)
exg_test(export_weights export/weights.c LIBS exg::export)
exg_test(export_weights_change export/weights_change.c LIBS tests_folder exg::export)
exg_test(export_weights_edit export/weights_edit.c LIBS exg::export)
exg_test(export_weights_ranks export/weights_ranks.c LIBS exg::export)
exg_test(export_weights_preset export/weights_preset.c LIBS exg::export)
exg_test(export_damage export/damage.c LIBS tests_folder exg::export)
exg_test(export_foreign export/foreign.c LIBS tests_folder exg::export)
exg_test(export_metadata export/metadata.c LIBS tests_folder exg::export)
exg_test(export_links export/links.c LIBS tests_folder exg::export)
exg_test(export_ptd export/ptd.c LIBS exg::export)
exg_test(export_onnx export/onnx.c LIBS tests_folder exg::export)
exg_test(export_weights_index export/weights_index.c LIBS tests_folder exg::export)
exg_test(export_weights_file export/weights_file.c export/same_tensors.c
  LIBS tests_folder exg::export)
exg_test(export_weights_faults export/weights_faults.c LIBS tests_folder exg::export)
exg_test(export_saved export/saved.c export/same_tensors.c LIBS tests_folder exg::export)
exg_test(export_packed export/packed.c export/same_tensors.c LIBS tests_folder exg::export)
foreach(name foreign packed)
  target_compile_definitions(test_export_${name} PRIVATE ${EXG_PACKER_DEFINITIONS})
endforeach()
exg_test(export_byte_source export/byte_source.c LIBS tests_folder exg::export)
exg_test(export_dcp export/dcp.c export/same_tensors.c LIBS tests_folder exg::export)
exg_test(export_weights_split export/weights_split.c export/same_tensors.c
  LIBS tests_folder exg::export)
exg_test(export_zero_tensor export/zero_tensor.c export/same_tensors.c
  LIBS tests_folder exg::export)

# Model files as they are passed on.
exg_test(export_digest export/digest.c export/refusal.c LIBS tests_folder exg::export)
exg_test(export_store export/store.c export/refusal.c LIBS tests_folder exg::export)
exg_test(export_patch export/patch.c export/refusal.c LIBS tests_folder exg::export)

# The gate: fixtures/bad/ holds one broken archive a rule.
exg_test(export_verify_files export/verify/files.c export/early_maker.c
  LIBS tests_folder exg::export)
exg_test(export_verify_guards export/verify/guards.c LIBS exg::export)
exg_test(export_verify_parts export/verify/parts.c LIBS exg::export)
exg_test(export_verify_contradictions export/verify/contradictions.c LIBS exg::export)
exg_test(export_verify_memory export/verify/memory.c export/refusal.c LIBS exg::export)
exg_test(export_verify_operators export/verify/operators.c LIBS exg::export)
exg_test(export_verify_words export/verify/words.c LIBS exg::export)
exg_test(export_verify_rules export/verify/rules.c LIBS exg::export)
add_test(NAME export_verify_codes
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/verify/codes.sh ${PROJECT_SOURCE_DIR})

# Expressions over sizes, schemas, writes through views.
exg_test(export_element export/element.c LIBS exg::export)
exg_test(export_uses export/uses.c LIBS exg::export)
exg_test(export_expression export/expression.c LIBS exg::export)
exg_test(export_scan export/scan.c LIBS exg::export)
exg_test(export_symint export/transform/symint.c LIBS exg::export)
exg_test(export_schema export/transform/schema.c LIBS exg::export)
exg_test(export_stage export/transform/stage.c LIBS tests_folder exg::export)
exg_test(export_stored_blocks export/transform/stored_blocks.c LIBS exg::export)
exg_test(export_subclass export/transform/subclass.c LIBS tests_folder exg::export)
exg_test(export_size_fit export/transform/size_fit.c LIBS exg::export)
exg_test(export_functionalize export/transform/functionalize.c LIBS exg::exec)

# The .exg container.
exg_test(export_exg export/exg.c LIBS tests_folder exg::export)
exg_test(export_exg_model export/exg_model.c export/whole.c LIBS tests_folder exg::export)
exg_test(export_exg_frames export/exg_frames.c LIBS exg::export)
exg_test(export_exg_save export/exg_save.c THREADS LIBS tests_folder exg::export)
exg_test(export_exg_faults export/exg_faults.c LIBS tests_folder exg::export)
exg_test(export_exg_resume export/exg_resume.c LIBS tests_folder exg::export)
exg_test(export_pipeline export/pipeline.c THREADS LIBS exg::export)

# A fault hides no other: the files of fixtures/bad, two faults in each.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND TARGET exg)
  if(NOT EXG_SANITIZE) # thousands of calls of the same code
    add_test(NAME verify_pairs COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/export/verify/pairs.py $<TARGET_FILE:exg>)
    set_tests_properties(verify_pairs PROPERTIES TIMEOUT 300)
  endif()
  # Early files at random, by way of every format.
  add_test(NAME export_early_forms COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/export/early_forms.py $<TARGET_FILE:exg>
    $<IF:$<BOOL:${EXG_SANITIZE}>,10,40>)
  set_tests_properties(export_early_forms PROPERTIES TIMEOUT 300)
endif()

# Two programs beside each other.
exg_test(export_diff export/diff.c LIBS exg::export)

# What `exg inspect` stands on.
exg_test(export_memory export/memory.c LIBS exg::export)
exg_test(export_inspection export/inspection.c LIBS exg::export)
exg_test(export_module export/module.c LIBS exg::export)
exg_test(export_text export/text.c LIBS exg::export)

# A locale with a decimal comma, made here where the machine's sources of locales allow it.
find_program(LOCALEDEF localedef)
if(LOCALEDEF AND EXISTS /usr/share/i18n/locales/de_DE)
  exg_test(export_locale export/locale.c export/exg_folder.c LIBS exg::export)
  add_test(NAME locale_comma COMMAND ${LOCALEDEF} -i de_DE -f UTF-8
    ${CMAKE_CURRENT_BINARY_DIR}/de_DE.UTF-8)
  set_tests_properties(locale_comma PROPERTIES FIXTURES_SETUP comma)
  set_tests_properties(export_locale PROPERTIES FIXTURES_REQUIRED comma
    ENVIRONMENT LOCPATH=${CMAKE_CURRENT_BINARY_DIR})
endif()

# The format of .exg may grow and not change: what it was is kept, and compared.
set(EXG_SCHEMA_1_0 ${PROJECT_SOURCE_DIR}/tests/export/data/export-1.0.fbs)
# S002-113
add_test(NAME schema_conforms COMMAND ${FLATC} --conform ${EXG_SCHEMA_1_0}
  ${PROJECT_SOURCE_DIR}/schema/export.fbs)
add_test(NAME schema_change_is_seen COMMAND sh -c
  "sed 's/^  is_param: bool;/  is_parameter: int;/' ${PROJECT_SOURCE_DIR}/schema/export.fbs > changed.fbs && ${FLATC} --conform ${EXG_SCHEMA_1_0} changed.fbs")
set_tests_properties(schema_change_is_seen PROPERTIES WILL_FAIL TRUE)
