exg run fixtures/convbn.eval.pt2 --profile > $T/told && sed -n '/^module/,$p' $T/told | cut -d' ' -f1 | sort; rm $T/told
